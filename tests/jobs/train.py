# SPDX-License-Identifier: Apache-2.0
"""A small GPT trained by torchrun on gloo: the job under test.

Deterministic; rank 0 prints the loss of each step with all its digits. Faults are planted by
`--fault KIND[,rank=R][,step=S][,arg=X][,every=N]` (may be given several times, see faults.py). With
`--events FILE` the job says when training started, when a fault struck, and when it was done.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import data
import events
import faults


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embed = nn.Embedding(args.vocabulary, args.width)
        self.blocks = nn.Sequential(*[Block(args.width, 4) for _ in range(args.layers)])
        self.head = nn.Linear(args.width, args.vocabulary)

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens)))


class Job:
    def __init__(self, args):
        self.args = args
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.faults = [faults.Fault(text) for text in args.fault]
        events.open_log(args.events, self.rank)
        torch.manual_seed(1234)
        self.model = self._wrap(Gpt(args))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.metric_groups = [dist.new_group() for _ in range(args.metric_groups)] or [None]
        self.pairs = self._make_pairs() if args.pairs else None
        self.cpu_per_step = self.slow_cpu = 0.0

    def _wrap(self, model):
        if self.args.fsdp:
            from torch.distributed.fsdp import fully_shard
            for block in model.blocks:
                fully_shard(block)
            fully_shard(model)
            return model
        return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.25)

    def _make_pairs(self):
        """Groups of two neighbours: ranks make different numbers of collectives, and rightly so."""
        groups = [dist.new_group([r, r + 1]) for r in range(self.world - 1)]
        return [g for r, g in enumerate(groups) if self.rank in (r, r + 1)]

    def planted(self, kind, step):
        return next((f for f in self.faults if f.kind == kind and f.hits(self.rank, step)), None)

    def loss(self, batch):
        logits = self.model(batch[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    def step(self, step, batch):
        cpu = time.process_time()
        self.lasting_faults(step)
        loss = self.loss(batch)
        for fault in self.faults:
            fault.run(faults.AT_COMPUTE, self, step)
        if self.args.accumulate > 1 and step % self.args.accumulate != 0:
            with self.model.no_sync():
                loss.backward()
        else:
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        spent = time.process_time() - cpu
        self.cpu_per_step = spent if not self.cpu_per_step else 0.9 * self.cpu_per_step + 0.1 * spent
        self.reduce_metrics(step, loss)
        for fault in self.faults:
            fault.run(faults.AT_SAVE, self, step)
        if self.planted_for_anyone(("eval", "checkpoint"), step):
            dist.barrier()
        return loss

    def planted_for_anyone(self, kinds, step):
        return any(f.kind in kinds and any(f.hits(r, step) for r in range(self.world))
                   for f in self.faults)

    def lasting_faults(self, step):
        for fault in self.faults:
            if not fault.lasts(self.rank, step):
                continue
            if fault.kind == "uneven":
                time.sleep(faults.uneven_seconds(self.rank, step))
            elif fault.kind == "slow_compute":
                if step == fault.step:
                    fault.announce(step)
                    self.slow_cpu = self.cpu_per_step  # of the healthy steps
                self.compute_more(self.slow_cpu * (fault.arg or 0.3))

    def compute_more(self, cpu_seconds):
        """Real extra work: forward passes that nobody needs."""
        until = time.process_time() + cpu_seconds
        tokens = torch.zeros((1, self.args.context), dtype=torch.long)
        with torch.no_grad():
            while time.process_time() < until:
                self.model.module(tokens)

    def reduce_metrics(self, step, loss):
        """What most jobs do each step beside their gradients: average the loss over the ranks."""
        groups = list(self.metric_groups)
        if self.planted("group_order", step):
            self.planted("group_order", step).announce(step)
            groups.reverse()
        if self.planted("skip_allreduce", step):
            self.planted("skip_allreduce", step).announce(step)
            return
        for group in groups:
            value = loss.detach().reshape(1).repeat(self.args.metric_size)
            if self.planted("wrong_size", step):
                self.planted("wrong_size", step).announce(step)
                value = value.repeat(self.args.wrong_size_factor)
            if self.planted("wrong_operation", step):
                self.planted("wrong_operation", step).announce(step)
                dist.broadcast(value, src=0, group=group)
            else:
                dist.all_reduce(value, group=group)
        for group in self.pairs or ():
            dist.all_reduce(torch.ones(8), group=group)
        if self.args.uneven_sizes:
            self.exchange_uneven(step)

    def exchange_uneven(self, step):
        """Rank r sends (r + step) % 3 + 1 numbers to each: sizes differ between ranks, and rightly so."""
        send = (self.rank + step) % 3 + 1
        receive = [(r + step) % 3 + 1 for r in range(self.world)]
        dist.all_to_all_single(torch.empty(sum(receive)), torch.ones(send * self.world),
                               receive, [send] * self.world)

    def run(self):
        loader = data.batches(self.rank, self.args, self.faults)
        events.say("training")
        for step, batch in enumerate(loader):
            loss = self.step(step, batch)
            if self.rank == 0:
                print(f"step {step} loss {loss.item()!r}", flush=True)
        events.say("done", steps=self.args.steps)


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--accumulate", type=int, default=1, help="steps per optimiser step")
    parser.add_argument("--fsdp", action="store_true", help="fully_shard instead of DDP (torch 2.4 on)")
    parser.add_argument("--metric-groups", type=int, default=0, metavar="N",
                        help="reduce the loss in N groups of its own, one after the other")
    parser.add_argument("--metric-size", type=int, default=1, help="numbers reduced beside gradients")
    parser.add_argument("--pairs", action="store_true", help="reduce in pairs of neighbours as well")
    parser.add_argument("--uneven-sizes", action="store_true", help="exchange unequal sizes each step")
    parser.add_argument("--wrong-size-factor", type=int, default=2)
    parser.add_argument("--fault", action="append", default=[], metavar="KIND,...",
                        help="one of: " + ", ".join(faults.KINDS))
    parser.add_argument("--events", help="file for JSON lines about what happens when")
    return parser.parse_args()


def main():
    args = parse()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    Job(args).run()
    if not os.environ.get("TRAIN_KEEP_GROUP"):
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
