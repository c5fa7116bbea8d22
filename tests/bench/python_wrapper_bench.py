#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a wrapped Python function costs, in ns per call, beside the same function bare.

    tests/bench/python_wrapper_bench.py [--json] [--python PYTHON]... [--build-dir DIR]

Bare and wrapped twin are called in turn in one process, in rounds short enough for a thread's ring, so
that events are stored and not dropped; each figure is the median over rounds. "switched off" is the
same with the segment's switch at 0. Audit events are what a program pays that is only preloaded.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENABLED_OFFSET = 896  # SegmentHeader::enabled

PROGRAM = """
import glob, json, mmap, os, statistics, threading, time

def bare(a): return a
def wrapped(a): return a
class Bare:
    def method(self): return 1
class Wrapped:
    def method(self): return 1
import colorsys

CALLS = 400

def time_of(call, argument):
    # Calls unrolled ten times: the loop itself is a part of the figure that both sides have.
    begin = time.perf_counter_ns()
    for _ in range(CALLS // 10):
        call(argument); call(argument); call(argument); call(argument); call(argument)
        call(argument); call(argument); call(argument); call(argument); call(argument)
    return (time.perf_counter_ns() - begin) / CALLS

def time_of_method(o, _):
    begin = time.perf_counter_ns()
    for _ in range(CALLS // 10):
        o.method(); o.method(); o.method(); o.method(); o.method()
        o.method(); o.method(); o.method(); o.method(); o.method()
    return (time.perf_counter_ns() - begin) / CALLS

def pairs(measure, a, b, argument=1, rounds=4, threads=20):
    results = ([], [])
    def work():
        measure(a, argument), measure(b, argument)
        for _ in range(rounds):
            results[0].append(measure(a, argument)); results[1].append(measure(b, argument))
    for _ in range(threads):  # a fresh ring each; the slot of a dead thread is claimed again
        thread = threading.Thread(target=work); thread.start(); thread.join()
    return [statistics.median(r) for r in results]

figures = {}
def measure(word):
    figures["function, " + word] = pairs(time_of, bare, wrapped)
    figures["method, " + word] = pairs(time_of_method, Bare(), Wrapped())

segments = glob.glob(os.environ.get("FLARE_DIR", "/nowhere") + "/*.seg")
if segments:
    measure("recorded")
    with open(segments[0], "r+b") as f:
        header = mmap.mmap(f.fileno(), 4096)
    header[ENABLED:ENABLED + 4] = bytes(4)
    measure("switched off")
figures["audit event id()"] = [0, statistics.median(time_of(id, 1) for _ in range(100))]
figures["no audit event len()"] = [0, statistics.median(time_of(len, ()) for _ in range(100))]
print(json.dumps(figures))
"""


def run(python, library):
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.py")
        program.write_text(PROGRAM.replace("ENABLED", str(ENABLED_OFFSET)))
        env = {k: v for k, v in os.environ.items() if not k.startswith("FLARE_")}
        if library:
            env.update(LD_PRELOAD=str(library), FLARE_FORCE="1", FLARE_DIR=folder,
                       FLARE_PYTHON_API="__main__@wrapped,__main__@Wrapped@method")
        return json.loads(subprocess.run([python, program], env=env, check=True,
                                         stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", help="interpreter; may be given again")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--build-dir", default=os.environ.get("FLARE_BUILD_DIR", ROOT / "build"))
    options = parser.parse_args()
    library = Path(options.build_dir, "lib/libflare.so").resolve()
    report = {}
    for python in options.python or [sys.executable]:
        without, figures = run(python, None), run(python, library)
        for name in ("audit event id()", "no audit event len()"):
            figures[name][0] = without[name][1]
        report[python] = {name: {"bare_ns": round(bare, 1), "traced_ns": round(traced, 1),
                                 "added_ns": round(traced - bare, 1)}
                          for name, (bare, traced) in figures.items()}
    if options.json:
        print(json.dumps(report, indent=2))
        return
    for python, rows in report.items():
        print(f"{python}\n  {'ns per call':24} {'bare':>8} {'traced':>8} {'added':>8}")
        for name, row in rows.items():
            print(f"  {name:24} {row['bare_ns']:8} {row['traced_ns']:8} {row['added_ns']:8}")


if __name__ == "__main__":
    main()
