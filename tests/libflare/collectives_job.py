# SPDX-License-Identifier: Apache-2.0
"""A job of two ranks that calls every collective and transfer of gloo that its PyTorch knows, trains
a small model with DDP and FSDP, and prints what it called as one JSON line per rank."""
import datetime
import json
import os
import sys

import torch
import torch.distributed as dist

calls = []  # [group name, operation, bytes, type, root], in the order of the launches


def note(operation, tensor=None, root=-1, group="world", count=1, unequal=False):
    size = 0 if tensor is None else tensor.numel() * tensor.element_size() * count
    dtype = "unknown" if tensor is None else str(tensor.dtype).replace("torch.", "")
    calls.append([group, operation, size, dtype, root, unequal])


def supported(function):
    """Runs `function`; False when this PyTorch's gloo has no such collective."""
    try:
        function()
        return True
    except RuntimeError as error:
        if "support" in str(error) or "not implemented" in str(error).lower():
            return False
        raise


def collectives(rank, size):
    x = torch.arange(1000, dtype=torch.float32)
    dist.all_reduce(x)
    note("all_reduce", x)
    y = torch.arange(7, dtype=torch.int64)
    dist.broadcast(y, 1)
    note("broadcast", y, 1)
    dist.reduce(y, 0)
    note("reduce", y)
    z = torch.ones(33, dtype=torch.float64)
    dist.all_gather([torch.empty_like(z) for _ in range(size)], z)
    note("all_gather", z)
    dist.gather(z, [torch.empty_like(z) for _ in range(size)] if rank == 1 else None, dst=1)
    note("gather", z, 1)
    dist.scatter(z, [z.clone() for _ in range(size)] if rank == 0 else None, src=0)
    note("scatter", z, 0)
    dist.barrier()
    calls.append(["world", "barrier", None, None, -1, False])
    out = torch.empty(20, dtype=torch.float32)
    full = torch.ones(40, dtype=torch.float32)
    if supported(lambda: dist.all_to_all_single(torch.empty_like(full), full)):
        note("all_to_all", full)
        dist.all_to_all_single(torch.empty_like(full), full, [20, 20], [20, 20])
        note("all_to_all", full, unequal=True)
    gather_tensor = getattr(dist, "all_gather_into_tensor", None)
    if gather_tensor and supported(lambda: gather_tensor(full, out)):
        note("all_gather", out)
    scatter_tensor = getattr(dist, "reduce_scatter_tensor", None)
    if scatter_tensor and supported(lambda: scatter_tensor(out, full)):
        note("reduce_scatter", full)
    if supported(lambda: dist.reduce_scatter(out, [out.clone() for _ in range(size)])):
        note("reduce_scatter", out, count=size)
    tensors = [x.clone() for _ in range(5)]
    for tensor, work in [(t, dist.all_reduce(t, async_op=True)) for t in tensors]:
        work.wait()
        note("all_reduce", tensor)
    return x


def transfers(rank):
    z = torch.ones(50, dtype=torch.float32)
    sent = received = 0
    for _ in range(3):
        if rank == 0:
            dist.send(z, 1)
            sent += 1
        else:
            dist.recv(z, 0)
            received += 1
    other = 1 - rank
    works = [dist.isend(z, other), dist.irecv(torch.empty_like(z), other)]
    for work in works:
        work.wait()
    return sent + 1, received + 1


def train(wrap, steps):
    torch.manual_seed(3)
    model = wrap(torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(),
                                     torch.nn.Linear(64, 8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        torch.manual_seed(100 + step + dist.get_rank())
        loss = model(torch.randn(16, 32)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    return losses


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    x = collectives(rank, size)
    before = len(calls)
    sub = dist.new_group([0, 1])
    dist.all_reduce(x, group=sub)
    note("all_reduce", x, group="sub")
    sent, received = transfers(rank)
    dist.monitored_barrier()
    ddp = train(torch.nn.parallel.DistributedDataParallel, 4)
    fsdp = None
    if "--fsdp" in sys.argv:
        from torch.distributed.fsdp import fully_shard

        def shard(model):
            fully_shard(model)
            return model

        fsdp = train(shard, 2)
    dist.barrier()
    dist.destroy_process_group()
    result = {"rank": rank, "calls": calls, "first": before, "sent": sent, "received": received,
              "ddp": ddp, "fsdp": fsdp, "sum": x.sum().item().hex(), "torch": torch.__version__}
    sys.stdout.write("RESULT " + json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
