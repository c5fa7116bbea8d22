# SPDX-License-Identifier: Apache-2.0
"""flare-engine and flared as they run on a node, in folders of their own, for a benchmark."""
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, seconds: float, what: str):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise SystemExit(f"not within {seconds} s: {what}")


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Services:
    """One engine and one daemon. `engine_port` may be a proxy's, to look at what passes."""

    def __init__(self, build_dir: Path, segment_dir: str):
        self.bin, self.segment_dir = build_dir / "bin", segment_dir
        self.folder = Path(tempfile.mkdtemp(prefix="flare-bench-"))
        self.port = free_port()
        self.processes: list[subprocess.Popen] = []

    def built(self) -> bool:
        return (self.bin / "flared").exists() and (self.bin / "flare-engine").exists()

    def start_engine(self) -> None:
        self._start("flare-engine", "--listen", f"127.0.0.1:{self.port}",
                    "--state-dir", self.folder / "state")
        wait_until(lambda: answers(self.port), 20, "the engine listens")

    def start_daemon(self, engine_port: int | None = None) -> subprocess.Popen:
        return self._start("flared", "--engine", f"127.0.0.1:{engine_port or self.port}",
                           "--segment-dir", self.segment_dir, "--spool-dir", self.folder / "spool")

    def _start(self, program: str, *arguments) -> subprocess.Popen:
        with open(self.folder / f"{program}.log", "ab") as log:
            process = subprocess.Popen([self.bin / program, *map(str, arguments)], stdout=log,
                                       stderr=log, stdin=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
