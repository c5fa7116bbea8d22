#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time and memory to read a profiler trace: flare against HolisticTraceAnalysis and Python's json.

    tests/bench/import_kineto_bench.py --flare build/bin/flare \\
        --traces ../shared/traces --hta-python VENV/bin/python

Reads the largest recorded trace, and one made a hundred times as long from it (copies one after the
other in time, with steps and correlations of their own), written to a temporary folder and removed.
All tools run on the same file in the same minutes, in turn; the best of each is compared. A tool
that would need more memory than --memory-gb is not run: its time and memory are then those of the
largest trace it did read, times the length, and marked so.

VENV needs: pip install HolisticTraceAnalysis. Exits with 1 when a target is missed.
"""
import argparse
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

TIME_TARGET = 20.0    # times as fast as HTA
MEMORY_TARGET = 0.25  # of its memory
LARGEST = "hta/df_index_resolver-rank1of2.json.gz"

# What HTA's users run first: load the trace, and where the time of the device went.
HTA = """
import logging, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]})
analysis.get_temporal_breakdown(visualize=False)
analysis.get_comm_comp_overlap(visualize=False)
"""
JSON = """
import gzip, json, sys
events = json.load(gzip.open(sys.argv[1]))["traceEvents"]
print(sum(e["dur"] for e in events if e.get("cat") == "kernel"))
"""
SHIFTED = re.compile(rb'("ts":\s*|"correlation":\s*|"External id":\s*|ProfilerStep#)(\d+)')


def make_longer(source, target, copies):
    """`copies` times the events of a trace, one after the other."""
    text = gzip.open(source).read()
    begin = text.index(b"[", text.index(b'"traceEvents"')) + 1
    end = text.rindex(b"]")
    head, events, tail = text[:begin], text[begin:end].rstrip().rstrip(b","), text[end:]
    pieces, numbers, last = [], [], 0
    for match in SHIFTED.finditer(events):
        pieces.append(events[last:match.start(2)])
        numbers.append((match.group(1)[:3], int(match.group(2))))
        last = match.end()
    rest = events[last:]
    times = [n for kind, n in numbers if kind == b'"ts']
    shift = {b'"ts': max(times) - min(times) + 1_000_000, b"Pro": 1000}
    ids = max(n for kind, n in numbers if kind in (b'"co', b'"Ex')) + 1
    with gzip.open(target, "wb", compresslevel=1) as out:
        out.write(head)
        for copy in range(copies):
            if copy:
                out.write(b",")
            out.write(b"".join(
                part for piece, (kind, n) in zip(pieces, numbers)
                for part in (piece, b"%d" % (n + copy * shift.get(kind, ids)))))
            out.write(rest)
        out.write(tail)
    return len(text) * copies


def measure(command):
    """Wall seconds and peak MiB of a command; None when it failed."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - begin
    return None if process.returncode != 0 else (seconds, usage.ru_maxrss / 1024)


def best(command, rounds):
    runs = [measure(command) for _ in range(rounds)]
    if None in runs:
        sys.exit(f"failed: {' '.join(command)}")
    return min(r[0] for r in runs), max(r[1] for r in runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flare", default="build/bin/flare")
    parser.add_argument("--traces", default="../shared/traces")
    parser.add_argument("--hta-python", required=True, help="Python that has HolisticTraceAnalysis")
    parser.add_argument("--times", type=int, default=100, help="length of the long trace")
    parser.add_argument("--memory-gb", type=float, default=8, help="of what a tool may take")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    trace = pathlib.Path(args.traces) / LARGEST
    folder = tempfile.mkdtemp(prefix="flare-bench-")
    try:
        return compare(args, trace, folder)
    finally:
        shutil.rmtree(folder)


def compare(args, trace, folder):
    tools = {
        "flare diagnose": [*args.flare.split(), "diagnose", "--json"],
        "HolisticTraceAnalysis": [args.hta_python, "-c", HTA],
        "Python json": [sys.executable, "-c", JSON],
    }
    missed = False
    measured = {}
    for times in (1, args.times):
        path = trace
        size = os.path.getsize(trace)
        if times > 1:
            path = os.path.join(folder, "long.json.gz")
            plain = make_longer(trace, path, times)
            size = os.path.getsize(path)
            print(f"\n{times} times as long: {plain / 2**20:.0f} MiB of JSON, {size / 2**20:.0f} MiB packed")
        else:
            print(f"{LARGEST}: {size / 2**20:.1f} MiB packed")
        results = {}
        for name, command in tools.items():
            before = measured.get(name)
            if before and before[1] * times > args.memory_gb * 1024 and name != "flare diagnose":
                results[name] = (before[0] * times, before[1] * times, " (not run: times %d)" % times)
                continue
            rounds = args.rounds if times == 1 else 1
            results[name] = (*best([*command, str(path)], rounds), "")
            measured[name] = results[name]
        ours = results["flare diagnose"]
        for name, (seconds, mib, note) in results.items():
            print(f"  {name:22} {seconds:9.2f} s {mib:9.0f} MiB   {seconds / ours[0]:7.1f} x time "
                  f"{mib / ours[1]:7.1f} x memory{note}")
        hta = results["HolisticTraceAnalysis"]
        if hta[0] / ours[0] < TIME_TARGET or ours[1] / hta[1] > MEMORY_TARGET:
            missed = True
            print(f"  target missed: {TIME_TARGET:.0f} x as fast, {MEMORY_TARGET} of the memory")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
