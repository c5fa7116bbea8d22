# SPDX-License-Identifier: Apache-2.0
"""Programs that a harm test watches while they run: a C program stepped by hand, and a training job."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import preload

JOBS = Path(__file__).resolve().parents[1] / "jobs"
POLL_S = 0.01


def wait_until(condition, seconds, what):
    """The first true value of condition(); fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(POLL_S)
    raise AssertionError(f"not within {seconds} s: {what}")


class Stepper:
    """awkward/stepper.c, one request at a time."""

    def __init__(self, program: Path, env: dict, *arguments: str):
        self.process = subprocess.Popen([program, *arguments], env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def step(self, count: int) -> None:
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == f"did {count}\n", \
            f"the program ended: {self.process.wait()}"

    def finish(self) -> int:
        _, errors = self.process.communicate(timeout=30)
        assert errors == ""
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.communicate()


class TrainingJob:
    """tests/jobs/train.py on several ranks, whose output is read while it runs."""

    def __init__(self, mode: str, *arguments, nproc: int = 2, env: dict | None = None):
        self.segment_dir = Path(tempfile.mkdtemp(prefix="flare-harm-", dir="/dev/shm"))
        environment = preload.environment(mode, self.segment_dir)
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            del environment[name]  # the launcher is no rank
        environment.update({"OMP_NUM_THREADS": "1", **(env or {})})
        self.nproc = nproc
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, JOBS / "launch.py", "--nproc", str(nproc), JOBS / "train.py",
             *map(str, arguments)],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.errors = ""
        self._readers = [threading.Thread(target=self._read_lines, daemon=True),
                         threading.Thread(target=self._read_errors, daemon=True)]
        for reader in self._readers:
            reader.start()

    def _read_lines(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def _read_errors(self):
        self.errors = self.process.stderr.read()

    def steps(self) -> int:
        return sum(line.startswith("step ") for line in self.lines)

    def wait_for_steps(self, count: int) -> None:
        wait_until(lambda: self.steps() >= count or self.process.poll() is not None, 120,
                   f"{count} steps, got {self.steps()}")
        assert self.steps() >= count, f"the job ended early: {self.process.poll()}\n{self.errors}"

    def segments(self) -> list[Path]:
        """One per rank, once all are there and events move."""
        def ready():
            found = preload.segments(self.segment_dir)
            return len(found) == self.nproc and \
                all(preload.peek(path)["events"] > 0 for path in found) and found
        return wait_until(ready, 60, f"{self.nproc} segments with events in {self.segment_dir}")

    def finish(self, timeout_s: float = 180) -> tuple:
        """(exit status, output, errors)"""
        status = self.process.wait(timeout_s)
        for reader in self._readers:
            reader.join()
        return status, "".join(self.lines), self.errors

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        shutil.rmtree(self.segment_dir, ignore_errors=True)


def reference(*arguments, nproc: int = 2, env: dict | None = None) -> tuple:
    """What the same job gives without FLARE."""
    with TrainingJob(preload.BARE, *arguments, nproc=nproc, env=env) as job:
        return job.finish()
