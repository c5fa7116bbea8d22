#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What FLARE adds to a training step, in pairs measured in one run.

    tests/bench/step_overhead.py toggle        one job that switches recording on and off, ABBA
    tests/bench/step_overhead.py pairs         whole jobs, with and without libflare, flared, engine
    tests/bench/step_overhead.py instructions  instructions of a step, by callgrind

`toggle` is the precise one: both halves of a pair are a second apart in one process, so machine, memory
layout and neighbours are the same. It leaves out what a switched-off hook costs (a few ns per call) and
what the daemon does all the time; `pairs` has all of it, and all the noise. Each prints a ratio with a
95 % interval (bootstrap over pairs), for wall time and for CPU time of the ranks.
"""
import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import services

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).with_name("step_job.py")
Results = list[list[dict]]  # [rank][segment]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["toggle", "pairs", "instructions"])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--segment", type=int, default=15, help="steps in one half of a pair")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--no-services", action="store_true", help="libflare alone")
    parser.add_argument("--quick", action="store_true", help="2 pairs: shows that it runs")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build")
    parser.epilog = "What follows -- goes to tests/jobs/train.py."
    own, job = sys.argv[1:], []
    if "--" in own:
        own, job = own[:own.index("--")], own[own.index("--") + 1:]
    args = parser.parse_args(own)
    args.job_arguments = job
    args.build_dir = args.build_dir.resolve()
    if args.quick:
        args.pairs, args.segment = 2, 3
    return args


class Bench:
    def __init__(self, args):
        self.args = args
        self.segment_dir = tempfile.mkdtemp(prefix="flare-bench-", dir="/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="flare-bench-"))

    def close(self) -> None:
        shutil.rmtree(self.segment_dir, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self, rank: int, port: int, preloaded: bool) -> dict:
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("FLARE_") and name != "LD_PRELOAD"}
        env.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(self.args.ranks),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1",
                   FLARE_DIR=self.segment_dir)
        if preloaded:
            env["LD_PRELOAD"] = str(self.args.build_dir / "lib" / "libflare.so")
        return env

    def run_job(self, preloaded: bool, *options, prefix: tuple = ()) -> Results:
        """Runs the job on all ranks; `prefix` is put before the program, which alone is preloaded."""
        port, out = services.free_port(), self.folder / "result"
        ranks = []
        for rank in range(self.args.ranks):
            env = self.environment(rank, port, preloaded)
            setting = [f"LD_PRELOAD={env.pop('LD_PRELOAD')}"] if preloaded else []
            ranks.append(subprocess.Popen(
                [*prefix, *(["env", *setting] if prefix or setting else []), sys.executable, JOB,
                 "--out", out, "--segment", str(self.args.segment), *map(str, options),
                 *self.args.job_arguments],
                env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        for rank in ranks:
            _, errors = rank.communicate()
            if rank.returncode != 0:
                raise SystemExit(f"a rank failed: {errors[-2000:]}")
        return [json.loads(Path(f"{out}.{rank}").read_text()) for rank in range(self.args.ranks)]

    def toggled(self) -> tuple[Results, list[tuple[int, int]]]:
        peek = self.args.build_dir / "tests" / "segment_peek"
        offset = subprocess.run([peek, "--enabled-offset"], capture_output=True, text=True,
                                check=True).stdout.strip()
        segments = 2 * self.args.pairs + self.args.pairs % 2 * 2
        results = self.run_job(True, "--toggle", "--enabled-offset", offset, "--segments", segments)
        return results, [(i, i + 1) if i % 4 == 0 else (i + 1, i) for i in range(0, segments, 2)]


def bootstrap(ratios: list[float]) -> tuple[float, float, float]:
    """Median of the ratios and its 95 % interval."""
    random.seed(1)
    medians = sorted(statistics.median(random.choices(ratios, k=len(ratios)))
                     for _ in range(4000))
    return statistics.median(ratios), medians[100], medians[3899]


def ratios_of(results: Results, pairs: list[tuple[int, int]]) -> dict[str, list[float]]:
    """One ratio per pair (on, off): the ranks run in step, so wall time is that of rank 0."""
    wall = [statistics.median(segment["wall_ns"]) for segment in results[0]]
    cpu = [sum(rank[i]["cpu_ns"] for rank in results) for i in range(len(results[0]))]
    return {"wall time": [wall[on] / wall[off] for on, off in pairs],
            "CPU time of the ranks": [cpu[on] / cpu[off] for on, off in pairs]}


def summary(ratios: dict[str, list[float]], step_ms: float) -> dict:
    result = {"step_ms": round(step_ms, 3)}
    for name, values in ratios.items():
        middle, low, high = bootstrap(values)
        result[name] = {"pairs": len(values), "overhead_percent": round(100 * (middle - 1), 3),
                        "low": round(100 * (low - 1), 3), "high": round(100 * (high - 1), 3)}
    return result


def step_ms(results: Results, segments: list[int]) -> float:
    return statistics.median(wall for i in segments for wall in results[0][i]["wall_ns"]) / 1e6


def measure_toggle(bench: Bench) -> dict:
    results, pairs = bench.toggled()
    return summary(ratios_of(results, pairs), step_ms(results, [off for _, off in pairs]))


def measure_pairs(bench: Bench, args) -> dict:
    """Jobs in the order with, without, without, with ...: every neighbour pair is one ratio."""
    walls: dict = {True: [], False: []}
    cpus: dict = {True: [], False: []}
    for pair in range(args.pairs):
        for preloaded in ((True, False) if pair % 2 == 0 else (False, True)):
            with services.Services(args.build_dir, bench.segment_dir) as node:
                if preloaded and not args.no_services and node.built():
                    node.start_engine()
                    node.start_daemon()
                results = bench.run_job(preloaded, "--segments", 1)
            walls[preloaded].append(statistics.median(results[0][0]["wall_ns"]))
            cpus[preloaded].append(sum(rank[0]["cpu_ns"] for rank in results))
            for left in Path(bench.segment_dir).glob("*.seg"):
                left.unlink()
    ratios = {"wall time": [a / b for a, b in zip(walls[True], walls[False])],
              "CPU time of the ranks": [a / b for a, b in zip(cpus[True], cpus[False])]}
    return summary(ratios, statistics.median(walls[False]) / 1e6)


def measure_instructions(bench: Bench, args) -> dict:
    """Callgrind counts user-space instructions of each segment of each rank, recording on and off."""
    marks = bench.folder / "callgrind_mark.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", Path(__file__).with_name("callgrind_mark.c"),
                    "-o", marks], check=True)
    offset = subprocess.run([args.build_dir / "tests" / "segment_peek", "--enabled-offset"],
                            capture_output=True, text=True, check=True).stdout.strip()
    prefix = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--trace-children=yes",
              f"--callgrind-out-file={bench.folder}/calls.%p")
    # AVX-512 and the like are unknown to valgrind.
    os.environ["ATEN_CPU_CAPABILITY"] = "default"
    segments = 2 * args.pairs + args.pairs % 2 * 2
    bench.run_job(True, "--toggle", "--enabled-offset", offset, "--segments", segments, "--warm-up",
                  3, "--marks", marks, prefix=prefix)
    counts: dict[int, int] = {}
    for path in bench.folder.glob("calls.*"):
        text = path.read_text(errors="replace")
        name = re.search(r"^desc: Trigger: Client Request: segment (\d+)", text, re.M)
        total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
        if name and total:
            counts[int(name.group(1))] = counts.get(int(name.group(1)), 0) + int(total.group(1))
    pairs = [(i, i + 1) if i % 4 == 0 else (i + 1, i) for i in range(0, segments, 2)]
    on = sum(counts[a] for a, _ in pairs) / len(pairs) / args.segment / args.ranks
    off = sum(counts[b] for _, b in pairs) / len(pairs) / args.segment / args.ranks
    result = summary({"instructions": [counts[a] / counts[b] for a, b in pairs]}, 0)
    result.update(instructions_per_step=round(off), added_per_step=round(on - off))
    return result


def show(result: dict, what: str) -> None:
    if result["step_ms"]:
        print(f"{what}: a step without takes {result['step_ms']:.2f} ms")
    else:
        print(f"{what}: a step without takes {result['instructions_per_step']:,} instructions per "
              f"rank; {result['added_per_step']:+,} with")
    for name, row in result.items():
        if isinstance(row, dict):
            print(f"  {name:22} with / without {1 + row['overhead_percent'] / 100:.5f}: "
                  f"{row['overhead_percent']:+.3f} % (95 %: {row['low']:+.3f} to {row['high']:+.3f}),"
                  f" {row['pairs']} pairs")


def main() -> None:
    args = parse()
    bench = Bench(args)
    try:
        if args.what == "pairs":
            result = measure_pairs(bench, args)
        elif args.what == "instructions":
            result = measure_instructions(bench, args)
        else:
            with services.Services(args.build_dir, bench.segment_dir) as node:
                if not args.no_services and node.built():
                    node.start_engine()
                    node.start_daemon()
                elif not args.no_services:
                    print("flared or flare-engine is not built: libflare alone", file=sys.stderr)
                result = measure_toggle(bench)
    finally:
        bench.close()
    if args.json:
        print(json.dumps({"what": args.what, **result}))
    else:
        show(result, args.what)


if __name__ == "__main__":
    main()
