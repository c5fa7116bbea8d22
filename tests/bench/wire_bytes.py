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


class MessageMeter:
    """Tells the messages of one gRPC connection apart, by the first field of each: bytes per kind."""

    PREFACE_BYTES, FRAME_HEADER_BYTES, PREFIX_BYTES = 24, 9, 5
    KINDS = {0x0a: "hello", 0x12: "batches", 0x1a: "states"}

    def __init__(self, totals: dict):
        self.totals = totals
        self.raw, self.message = bytearray(), bytearray()
        self.skip = self.PREFACE_BYTES

    def feed(self, data: bytes) -> None:
        self.raw += data
        if self.skip:
            if len(self.raw) < self.skip:
                return
            del self.raw[:self.skip]
            self.skip = 0
        while len(self.raw) >= self.FRAME_HEADER_BYTES:
            length = int.from_bytes(self.raw[:3], "big")
            if len(self.raw) < self.FRAME_HEADER_BYTES + length:
                return
            if self.raw[3] == 0:  # DATA
                self.message += self.raw[self.FRAME_HEADER_BYTES:self.FRAME_HEADER_BYTES + length]
                self._count_messages()
            del self.raw[:self.FRAME_HEADER_BYTES + length]

    def _count_messages(self) -> None:
        while len(self.message) >= self.PREFIX_BYTES:
            length = int.from_bytes(self.message[1:self.PREFIX_BYTES], "big")
            if len(self.message) < self.PREFIX_BYTES + length:
                return
            first = self.message[self.PREFIX_BYTES] if length else 0
            kind = self.KINDS.get(first, "other")
            self.totals[kind] = self.totals.get(kind, 0) + self.PREFIX_BYTES + length
            del self.message[:self.PREFIX_BYTES + length]


class CountingProxy(threading.Thread):
    """Forwards every connection to `target_port` and counts payload in both directions."""

    def __init__(self, target_port: int):
        super().__init__(daemon=True)
        self.target_port = target_port
        self.to_engine = self.to_daemon = 0
        self.kinds: dict[str, int] = {}
        self.meters: dict[socket.socket, MessageMeter] = {}
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
                    self.meters[daemon] = MessageMeter(self.kinds)
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
            self.meters[source].feed(data)
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


class SegmentWatch(threading.Thread):
    """The last counts seen in each black box: the daemon removes those of dead ranks."""

    def __init__(self, args, segment_dir: str):
        super().__init__(daemon=True)
        self.args, self.segment_dir = args, segment_dir
        self.seen: dict[str, dict] = {}
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            for path in Path(self.segment_dir).glob("*.seg"):
                done = subprocess.run([self.args.build_dir / "tests" / "segment_peek", path],
                                      capture_output=True, text=True, check=False)
                if done.returncode == 0:
                    self.seen[path.name] = json.loads(done.stdout)

    def events_per_step(self) -> float:
        """As far as seen: the last look at a rank is a moment before its end."""
        steps = sum(facts["step"] for facts in self.seen.values())
        return sum(facts["events"] + facts["dropped"] for facts in self.seen.values()) / steps


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
    batches, states = proxy.kinds.get("batches", 0), proxy.kinds.get("states", 0)
    return {"ranks": args.ranks, "steps": args.steps, "job_seconds": round(job_s, 1),
            "watched_seconds": round(total_s, 1), "set_up_bytes": set_up, "bytes_up": sent,
            "bytes_down": proxy.to_daemon, "messages_up": proxy.kinds,
            "bytes_per_rank_step": round(sent / rank_steps, 1),
            "batch_bytes_per_rank_step": round(batches / rank_steps, 1),
            "state_bytes_per_rank_second": round(states / args.ranks / total_s, 1),
            "raw_bytes_per_rank_step": round(watch.events_per_step() * EVENT_BYTES, 1)}


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
    all_bytes, raw = result["bytes_per_rank_step"], result["raw_bytes_per_rank_step"]
    print(f"per rank and step: {all_bytes:.0f} bytes, of which steps "
          f"{result['batch_bytes_per_rank_step']:.0f}; states, which follow the clock: "
          f"{result['state_bytes_per_rank_second']:.0f} per rank and second")
    print(f"raw events would be {raw:.0f} per rank and step ({raw / all_bytes:.1f} times as many)")


if __name__ == "__main__":
    main()
