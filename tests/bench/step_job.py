# SPDX-License-Identifier: Apache-2.0
"""The training job of tests/jobs, timed step by step, for step_overhead.py.

The steps are cut into segments of `--segment` steps. With `--toggle` every rank switches its own
recording on and off between segments, in the order on off off on, by the field of its FLARE segment
that the daemon uses for this. Results go to FILE.RANK as JSON: one entry per segment.
"""
import argparse
import ctypes
import glob
import json
import mmap
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "jobs"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import data  # noqa: E402
import train  # noqa: E402


class Switch:
    """The `enabled` field of this process's own segment; absent when there is no segment."""

    def __init__(self, offset: int):
        found = glob.glob(f"{os.environ.get('FLARE_DIR', '/nowhere')}/*.{os.getpid()}.*.seg")
        self.memory = None
        if found:
            with open(found[0], "r+b") as file:
                self.memory = mmap.mmap(file.fileno(), 4096)
        self.offset = offset

    def set(self, on: bool) -> None:
        if self.memory is None:
            raise SystemExit("this rank has no FLARE segment to switch")
        self.memory[self.offset:self.offset + 4] = int(on).to_bytes(4, sys.byteorder)


class Counter:
    """Instructions of each segment, under callgrind only."""

    def __init__(self, library: str | None):
        self.marks = ctypes.CDLL(library) if library else None
        if self.marks:
            self.marks.StartCounting()

    def begin(self) -> None:
        if self.marks:
            self.marks.Forget()

    def end(self, name: str) -> None:
        if self.marks:
            self.marks.Dump(name.encode())


def is_on(segment: int) -> bool:
    return segment % 4 in (0, 3)


def run(job: train.Job, args) -> list[dict]:
    loader = iter(data.batches(job.rank, job.args, []))
    step = 0

    def next_step() -> None:
        nonlocal step
        job.step(step, next(loader)).item()
        step += 1

    for _ in range(args.warm_up):
        next_step()
    switch = Switch(args.enabled_offset) if args.toggle else None
    counter = Counter(args.marks)
    results = []
    for segment in range(args.segments):
        on = is_on(segment)
        if switch:
            switch.set(on)
        next_step()  # the others may switch a moment later
        counter.begin()
        walls, cpu = [], time.process_time_ns()
        for _ in range(args.segment):
            start = time.perf_counter_ns()
            next_step()
            walls.append(time.perf_counter_ns() - start)
        cpu = time.process_time_ns() - cpu
        counter.end(f"segment {segment}")
        results.append({"on": on if switch else None, "wall_ns": walls,
                        "cpu_ns": cpu / args.segment})
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--toggle", action="store_true")
    parser.add_argument("--enabled-offset", type=int, default=0)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--segments", type=int, default=8)
    parser.add_argument("--segment", type=int, default=10, help="steps in a segment")
    parser.add_argument("--marks", help="callgrind_mark.so")
    args, rest = parser.parse_known_args()
    total = args.warm_up + args.segments * (args.segment + 1)
    sys.argv = [sys.argv[0], "--steps", str(total), *rest]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    job = train.Job(train.parse())
    results = run(job, args)
    with open(f"{args.out}.{job.rank}", "w", encoding="utf-8") as file:
        json.dump(results, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
