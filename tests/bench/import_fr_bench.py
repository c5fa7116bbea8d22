#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time and memory to diagnose Flight Recorder dumps, beside the usual tools on the same files.

    tests/bench/import_fr_bench.py --dumps DIR [--flare build/bin/flare] [--runs 3] [--factor 100] [--json]

DIR holds one dump for each rank, named <anything><rank>. They are measured as they are and with a
history of finished collectives that makes them FACTOR times as large. Beside `flare diagnose`: PyTorch's
torchfrtrace, which imports torch for it, and a script that only loads the pickles and compares the last
numbers of each group, the least that anybody would do in Python. Each figure is the median of the runs;
memory is the peak of the resident set. DIR itself is only read.
"""
import argparse
import json
import os
import pickle
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

LOAD_ONLY = """
import os, pickle, sys
last = {}
for name in os.listdir(sys.argv[1]):
    with open(os.path.join(sys.argv[1], name), "rb") as file:
        dump = pickle.load(file)
    for entry in dump["entries"]:
        if entry["state"] != "completed" and not entry["is_p2p"]:
            ranks = last.setdefault((entry["process_group"], entry["collective_seq_id"]), set())
            ranks.add(name)
for (group, sequence), ranks in sorted(last.items())[:10]:
    print(group, sequence, sorted(ranks))
"""


class PlainUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name} is no plain data")


def measure(command: list[str]) -> tuple[float, float, int]:
    """Wall and CPU seconds, peak resident KiB."""
    begin = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)}: status {child.returncode}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def median(command: list[str], runs: int) -> dict:
    figures = list(zip(*(measure(command) for _ in range(runs))))
    wall, cpu, kib = (statistics.median(column) for column in figures)
    return {"wall_s": round(wall, 4), "cpu_s": round(cpu, 4), "peak_mib": round(kib / 1024, 1)}


def with_history(dump: dict, count: int) -> dict:
    """The dump with `count` finished all-reduces of all ranks before what it has."""
    first = min([e["time_created_ns"] for e in dump["entries"]], default=1_700_000_000_000_000_000)
    group = next(name for name, config in dump["pg_config"].items() if config["desc"] == "default_pg")
    history = []
    for i in range(count):
        created = first - (count - i) * 1_000_000
        history.append({
            "record_id": i, "pg_id": 0, "process_group": (group, "default_pg"),
            "collective_seq_id": i + 1, "p2p_seq_id": 0, "op_id": i + 1,
            "profiling_name": "nccl:all_reduce", "time_created_ns": created,
            "input_sizes": [[4096, 5120]], "input_dtypes": ["BFloat16"],
            "output_sizes": [[4096, 5120]], "output_dtypes": ["BFloat16"], "state": "completed",
            "time_discovered_started_ns": created + 1000,
            "time_discovered_completed_ns": created + 900_000, "retired": True,
            "timeout_ms": 600000, "is_p2p": False, "thread_id": "1", "thread_name": "python"})
    return {**dump, "entries": history + dump["entries"]}


def write_sets(dumps: list[Path], factor: int, folder: Path) -> dict[str, Path]:
    plain, large = folder / "plain", folder / "large"
    plain.mkdir()
    large.mkdir()
    loaded = {}
    for path in dumps:
        rank = re.search(r"(\d+)$", path.name).group(1)
        shutil.copyfile(path, plain / f"dump_{rank}")
        with path.open("rb") as file:
            loaded[rank] = PlainUnpickler(file).load()
    entries = sum(len(dump["entries"]) for dump in loaded.values())
    count = entries * (factor - 1) // len(loaded)
    for rank, dump in loaded.items():
        (large / f"dump_{rank}").write_bytes(pickle.dumps(with_history(dump, count), protocol=2))
    return {"as recorded": plain, f"{factor} times as many entries": large}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dumps", type=Path, required=True)
    parser.add_argument("--flare", type=Path, default=ROOT / "build/bin/flare")
    parser.add_argument("--python", type=Path, default=ROOT / ".venv/bin/python")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--factor", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    dumps = sorted(path for path in arguments.dumps.iterdir() if re.search(r"dump_\d+$", path.name))
    if not dumps:
        sys.exit(f"{arguments.dumps}: no dumps")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, files in write_sets(dumps, arguments.factor, Path(folder)).items():
            tools = {
                "flare diagnose": [arguments.flare, "diagnose", files],
                "torchfrtrace": [arguments.python, "-m",
                                 "torch.distributed.flight_recorder.fr_trace", "--prefix", "dump_",
                                 files],
                "load only": [arguments.python, "-c", LOAD_ONLY, files],
            }
            figures = {tool: median([str(word) for word in command], arguments.runs)
                       for tool, command in tools.items()}
            size = sum(path.stat().st_size for path in files.iterdir())
            results[name] = {"mib": round(size / 2**20, 2), "tools": figures}
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    for name, result in results.items():
        print(f"{len(dumps)} dumps {name}, {result['mib']} MiB")
        ours = result["tools"]["flare diagnose"]
        for tool, figures in result["tools"].items():
            line = (f"  {tool:16} {figures['wall_s']:8.3f} s  {figures['cpu_s']:8.3f} s CPU "
                    f"{figures['peak_mib']:8.1f} MiB")
            if figures is not ours:
                line += (f"   {figures['wall_s'] / ours['wall_s']:6.1f} x the time, "
                         f"{figures['peak_mib'] / ours['peak_mib']:5.1f} x the memory of flare")
            print(line)


if __name__ == "__main__":
    main()
