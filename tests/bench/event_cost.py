#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cost of one recorded call: nanoseconds, instructions, and counts that must be zero.

    tests/bench/event_cost.py [--json] [--quick] [--build-dir DIR]

Nanoseconds come from event_cost_bench. Instructions come from callgrind, as the difference of two runs
of different length, so start-up does not count; they do not depend on the load of the machine.
"""
import argparse
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = {"empty call": "empty", "event": "event", "event, switched off": "inactive",
            "mutex and queue": "queue"}


def instructions(program: Path, what: str, turns: int) -> int:
    """Instructions of a whole run of `turns` calls."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
                               program, "--loop", what, str(turns)], capture_output=True, text=True,
                              check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def instructions_per_call(program: Path, turns: int = 32000) -> dict | None:
    """Per variant, above an empty call; None without valgrind."""
    if shutil.which("valgrind") is None:
        return None
    found = {name: (instructions(program, what, 2 * turns) - instructions(program, what, turns))
             / turns for name, what in VARIANTS.items()}
    return {name: round(count - found["empty call"], 1) for name, count in found.items()}


def nanoseconds(program: Path, quick: bool) -> dict:
    done = subprocess.run([program, "--json", *(["--quick"] if quick else [])],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def counts(program: Path) -> dict:
    done = subprocess.run([program, "--count"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build")
    args = parser.parse_args()
    program = args.build_dir / "bench" / "event_cost_bench"
    result = {"time": nanoseconds(program, args.quick),
              "instructions_added": instructions_per_call(program),
              "counts": counts(program)}
    if args.json:
        print(json.dumps(result))
        return
    print(f"{'':22} {'p50 ns':>8} {'p99 ns':>8} {'added ns':>9} {'instructions':>13}")
    for name in VARIANTS:
        time = result["time"][name]
        added = (result["instructions_added"] or {}).get(name, "-")
        print(f"{name:22} {time['p50_ns']:8.1f} {time['p99_ns']:8.1f} {time['added_p50_ns']:9.1f} "
              f"{added:>13}")
    print(f"a mutex and a queue cost {result['time']['queue_to_ours']:.1f} times what an event costs; "
          f"clock: {result['time']['clock']}")
    count = result["counts"]
    print(f"{count['events']} events: {count['allocations']} allocations, {count['locks']} locks, "
          f"{count['system_calls']} system calls")


if __name__ == "__main__":
    main()
