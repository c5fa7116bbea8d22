#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What libflare costs a process that it leaves alone, at start: `true`, bare and preloaded.

    tests/bench/constructor_cost.py [--json] [--quick] [--build-dir DIR]

Instructions in user space by callgrind (loader work for the library included), and wall time of whole
processes in interleaved pairs.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def environments(library: Path, segments: str) -> dict:
    bare = {name: value for name, value in os.environ.items()
            if not name.startswith("FLARE_") and name not in ("LD_PRELOAD", "RANK", "WORLD_SIZE")}
    rank = dict(bare, RANK="0", WORLD_SIZE="2", FLARE_DIR=segments)
    return {"bare": bare,
            "inert, no rank": dict(bare, LD_PRELOAD=str(library)),
            "inert, in a rank": dict(rank, LD_PRELOAD=str(library)),
            "woken": dict(rank, LD_PRELOAD=str(library), FLARE_FORCE="1")}


def instructions(env: dict) -> int:
    """The preload is handed to the program alone: valgrind runs bare."""
    env = dict(env)
    prefix = ["env", f"LD_PRELOAD={env.pop('LD_PRELOAD')}"] if "LD_PRELOAD" in env else ["env"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["valgrind", "--tool=callgrind", "--trace-children=yes",
                               f"--callgrind-out-file={folder}/out.%p", *prefix, "/bin/true"],
                              env=env, capture_output=True, text=True, check=True)
    return int(re.findall(r"Collected : (\d+)", done.stderr)[-1])


def seconds(env: dict) -> float:
    start = time.perf_counter()
    subprocess.run(["/bin/true"], env=env, check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build")
    args = parser.parse_args()
    segments = tempfile.mkdtemp(prefix="flare-bench-", dir="/dev/shm")
    try:
        envs = environments(args.build_dir.resolve() / "lib" / "libflare.so", segments)
        times: dict = {name: [] for name in envs}
        for _ in range(20 if args.quick else 500):
            for name, env in envs.items():
                times[name].append(seconds(env))
                for left in Path(segments).iterdir():
                    left.unlink()
        result = {}
        for name, env in envs.items():
            result[name] = {"median_us": round(statistics.median(times[name]) * 1e6, 1)}
            if shutil.which("valgrind"):
                result[name]["instructions"] = instructions(env)
    finally:
        shutil.rmtree(segments)
    if args.json:
        print(json.dumps(result))
        return
    bare = result["bare"]
    print(f"{'/bin/true':18} {'median µs':>10} {'added µs':>9} {'instructions added':>19}")
    for name, row in result.items():
        added = row["instructions"] - bare["instructions"] if "instructions" in row else "-"
        print(f"{name:18} {row['median_us']:10.1f} {row['median_us'] - bare['median_us']:9.1f} "
              f"{added:>19}")


if __name__ == "__main__":
    main()
