#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes that leave the node per rank and step, on the DDP job of tests/jobs.

    tests/bench/wire_bytes.py [--ranks N] [--steps N] [--json] [--quick] [--build-dir DIR]

A proxy between flared and flare-engine counts what passes: TCP payload, so HTTP/2 and gRPC framing are
in, headers of TCP/IP are not. What passes before the job starts is counted apart; the states that the
daemon sends in its own rhythm during the job are in. Raw events (64 bytes each) are the baseline.
"""
import argparse
import json
import os
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import services

ROOT = Path(__file__).resolve().parents[2]
EVENT_BYTES = 64


class CountingProxy(threading.Thread):
    """Forwards every connection to `target_port` and counts payload in both directions."""

    def __init__(self, target_port: int):
        super().__init__(daemon=True)
        self.target_port = target_port
        self.to_engine = self.to_daemon = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self.listener, selectors.EVENT_READ)
        peers: dict[socket.socket, tuple[socket.socket, bool]] = {}
        while True:
            for key, _ in selector.select():
                if key.fileobj is self.listener:
                    daemon, _ = self.listener.accept()
                    engine = socket.create_connection(("127.0.0.1", self.target_port))
                    peers[daemon], peers[engine] = (engine, True), (daemon, False)
                    selector.register(daemon, selectors.EVENT_READ)
                    selector.register(engine, selectors.EVENT_READ)
                else:
                    self._forward(key.fileobj, peers, selector)

    def _forward(self, source, peers, selector) -> None:
        if source not in peers:
            return
        target, upward = peers[source]
        try:
            data = source.recv(1 << 16)
            if data:
                target.sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (source, target):
                peers.pop(end, None)
                selector.unregister(end)
                end.close()
        elif upward:
            self.to_engine += len(data)
        else:
            self.to_daemon += len(data)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--quick", action="store_true", help="40 steps: shows that it runs")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build")
    parser.add_argument("job_arguments", nargs="*", help="for tests/jobs/train.py, after --")
    args = parser.parse_args()
    args.build_dir = args.build_dir.resolve()
    args.steps = 40 if args.quick else args.steps
    return args


def wait_until_settled(proxy: CountingProxy, most_s: float = 5) -> None:
    """Until no more than small messages pass: less than 1 KB in half a second."""
    deadline = time.monotonic() + most_s
    last = -1
    while time.monotonic() < deadline and proxy.to_engine - last > 1024 or last < 0:
        last = proxy.to_engine
        time.sleep(0.5)


def recorded(args, segment_dir: str) -> tuple[int, int]:
    """Events and steps in the black boxes of the ranks."""
    events = steps = 0
    for path in Path(segment_dir).glob("*.seg"):
        done = subprocess.run([args.build_dir / "tests" / "segment_peek", path],
                              capture_output=True, text=True, check=False)
        if done.returncode == 0:
            facts = json.loads(done.stdout)
            events += facts["events"] + facts["dropped"]
            steps += facts["step"]
    return events, steps


class SegmentWatch(threading.Thread):
    """Largest counts seen: the daemon removes the segments of dead ranks."""

    def __init__(self, args, segment_dir: str):
        super().__init__(daemon=True)
        self.args, self.segment_dir = args, segment_dir
        self.events = self.steps = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.25):
            events, steps = recorded(self.args, self.segment_dir)
            self.events, self.steps = max(events, self.events), max(steps, self.steps)


def run_job(args, segment_dir: str) -> float:
    env = {name: value for name, value in os.environ.items() if not name.startswith("FLARE_")}
    env.update(OMP_NUM_THREADS="1", FLARE_DIR=segment_dir,
               LD_PRELOAD=str(args.build_dir / "lib" / "libflare.so"))
    jobs = ROOT / "tests" / "jobs"
    start = time.monotonic()
    subprocess.run([sys.executable, jobs / "launch.py", "--nproc", str(args.ranks),
                    jobs / "train.py", "--steps", str(args.steps), *args.job_arguments],
                   env=env, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def measure(args, node: services.Services, segment_dir: str) -> dict:
    node.start_engine()
    proxy = CountingProxy(node.port)
    proxy.start()
    node.start_daemon(proxy.port)
    wait_until_settled(proxy)
    set_up, start = proxy.to_engine, time.monotonic()
    watch = SegmentWatch(args, segment_dir)
    watch.start()
    job_s = run_job(args, segment_dir)
    wait_until_settled(proxy)
    watch.over.set()
    watch.join()
    sent, total_s = proxy.to_engine - set_up, time.monotonic() - start
    rank_steps = args.ranks * args.steps
    return {"ranks": args.ranks, "steps": args.steps, "job_seconds": round(job_s, 1),
            "watched_seconds": round(total_s, 1), "set_up_bytes": set_up, "bytes_up": sent,
            "bytes_down": proxy.to_daemon, "steps_counted": watch.steps, "events": watch.events,
            "bytes_per_rank_step": round(sent / rank_steps, 1),
            "raw_bytes_per_rank_step": round(watch.events * EVENT_BYTES / rank_steps, 1)}


def main() -> None:
    args = parse()
    segment_dir = tempfile.mkdtemp(prefix="flare-bench-", dir="/dev/shm")
    try:
        with services.Services(args.build_dir, segment_dir) as node:
            if not node.built():
                raise SystemExit("flared and flare-engine are needed: build them first")
            result = measure(args, node, segment_dir)
    finally:
        shutil.rmtree(segment_dir, ignore_errors=True)
    if args.json:
        print(json.dumps(result))
        return
    print(f"{result['ranks']} ranks, {result['steps']} steps in {result['job_seconds']} s; "
          f"{result['bytes_up']} bytes up, {result['bytes_down']} down, "
          f"{result['set_up_bytes']} before the job")
    raw = result["raw_bytes_per_rank_step"]
    print(f"per rank and step: {result['bytes_per_rank_step']:.0f} bytes; raw events would be "
          f"{raw:.0f} ({raw / result['bytes_per_rank_step']:.1f} times as many)")


if __name__ == "__main__":
    main()
