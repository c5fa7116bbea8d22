# SPDX-License-Identifier: Apache-2.0
"""Synthetic text, equal in every run: sample i of rank r depends on i and r only."""
import time

import torch
from torch.utils.data import DataLoader, Dataset

import events


class Tokens(Dataset):
    def __init__(self, rank, samples, args, faults):
        self.rank, self.samples, self.args = rank, samples, args
        self.faults = [f for f in faults if f.kind in ("data_stall", "slow_data")]

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        step = index // self.args.batch
        if index % self.args.batch == 0:
            for fault in self.faults:
                self._apply(fault, step)
        generator = torch.Generator().manual_seed(self.rank * 1000003 + index)
        return torch.randint(self.args.vocabulary, (self.args.context + 1,), generator=generator)

    def _apply(self, fault, step):
        if fault.kind == "data_stall" and fault.hits(self.rank, step):
            fault.announce(step)
            time.sleep(fault.arg or 1e6)  # a lost file server, seen from a worker
        elif fault.kind == "slow_data" and fault.lasts(self.rank, step):
            if step == fault.step:
                fault.announce(step)
            time.sleep(fault.arg or 0.2)


def batches(rank, args, faults):
    dataset = Tokens(rank, args.steps * args.batch, args, faults)
    return DataLoader(dataset, batch_size=args.batch, num_workers=args.num_workers)
