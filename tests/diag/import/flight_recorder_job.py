# SPDX-License-Identifier: Apache-2.0
"""A gloo job of four ranks whose Flight Recorder dumps are written while it hangs.

    torchrun --nproc-per-node 4 flight_recorder_job.py FOLDER missing|mismatch

Run with TORCH_FR_BUFFER_SIZE set. After a few good steps rank 2 sleeps instead of making the next
call, or makes another one. Every rank writes FOLDER/fr_<rank> a while later and ends.
"""
import os
import sys
import threading
import time
from datetime import timedelta

import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist

folder, fault = sys.argv[1], sys.argv[2]
dist.init_process_group("gloo", timeout=timedelta(seconds=120))
rank = dist.get_rank()


def train_step():
    dist.all_reduce(torch.ones(1024))


def load_batch():
    time.sleep(100)


def evaluate():
    dist.all_gather([torch.zeros(16) for _ in range(4)], torch.zeros(16))


def dump_and_end():
    with open(f"{folder}/fr_{rank}", "wb") as file:
        file.write(c10d._dump_fr_trace())
    os._exit(0)


for _ in range(5):
    train_step()
dist.barrier()
threading.Timer(3, dump_and_end).start()
if rank == 2:
    load_batch() if fault == "missing" else evaluate()
train_step()
time.sleep(100)
