# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer with DistributedDataParallel on the CPU, and can be told to go wrong.

    flare run -- torchrun --standalone --nproc_per_node 4 examples/demo_train.py --fault stop

The model learns to continue sequences that repeat themselves. Faults, alone or as a list:
    data_stall   at step 30, the data loader of rank 2 gives nothing for 8 seconds
    stop         at step 60, rank 1 stops in the middle of its step (SIGSTOP) and stays so
"""
import argparse
import os
import signal
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

WORDS, LENGTH, WIDTH, BATCH = 64, 32, 64, 8
STALL_RANK, STALL_STEP, STALL_SECONDS = 2, 30, 8
STOP_RANK, STOP_STEP = 1, 60


class Repeats(Dataset):
    """Sequences in which a short random phrase comes again and again."""

    def __init__(self, rank, steps, stalls):
        self.rank, self.samples, self.stalls = rank, steps * BATCH, stalls

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        if self.stalls and self.rank == STALL_RANK and index == STALL_STEP * BATCH:
            time.sleep(STALL_SECONDS)  # as when the file server does not answer
        generator = torch.Generator().manual_seed(self.rank * self.samples + index)
        phrase = torch.randint(WORDS, (4,), generator=generator)
        return phrase.repeat(LENGTH // 4 + 1)[:LENGTH + 1]


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)
        self.future = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(LENGTH))
        return self.head(self.layers(x, mask=self.future))


def train(steps, faults):
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Transformer())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    # The worker process loads the next batch while this one is used.
    loader = DataLoader(Repeats(rank, steps, "data_stall" in faults), BATCH, num_workers=1)
    for step, tokens in enumerate(loader):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        if "stop" in faults and (rank, step) == (STOP_RANK, STOP_STEP):
            os.kill(os.getpid(), signal.SIGSTOP)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 10 == 0:
            print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--fault", default="none", help="none, data_stall, stop or data_stall,stop")
    args = parser.parse_args()
    faults = set(args.fault.split(",")) - {"none"}
    if faults - {"data_stall", "stop"}:
        parser.error(f"unknown fault {args.fault}")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(args.steps, faults)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
