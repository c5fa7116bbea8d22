# SPDX-License-Identifier: Apache-2.0
"""Runs a real training job under `flare run` and keeps every version of its report.

Every process of a run inherits one tag in its environment, by which the harness finds the ranks and,
in the end, whatever was left behind. Waiting is always for a condition, with a deadline. Times are
wall clock: the job writes when the fault struck, the harness notes when it saw a version of the report.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JOBS = ROOT / "tests" / "jobs"
POLL_S = 0.02
TAG = "FLARE_TEST_TAG"


def build_dir():
    return Path(os.environ.get("FLARE_BUILD_DIR", ROOT / "build"))


def program(name):
    path = build_dir() / "bin" / name
    assert path.exists(), f"{path} is not built"
    return str(path)


def preload_library():
    return str(build_dir() / "lib" / "libflare.so")


def wait_until(condition, seconds, what):
    """The first true value of condition(); fails after `seconds`. `what` may be a function."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(POLL_S)
    raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")


def torchrun(nproc):
    """torchrun as a command; old torch with a newer Python needs its streams named."""
    import importlib.metadata
    major = int(importlib.metadata.version("torch").split(".")[0])
    streams = [] if major >= 2 else ["-r", "9:1", "-t", "9:1"]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", *streams,
            "--nproc_per_node", str(nproc)]


def launch(nproc):
    """Ranks that outlive each other: tests/jobs/launch.py."""
    return [sys.executable, str(JOBS / "launch.py"), "--nproc", str(nproc)]


def train(*args):
    return [str(JOBS / "train.py"), *map(str, args)]


class Tagged:
    """The processes whose environment carries one tag."""

    def __init__(self):
        self.tag = uuid.uuid4().hex

    def environment(self, pid):
        try:
            data = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return {}
        return dict(e.split("=", 1) for e in data.decode(errors="replace").split("\0") if "=" in e)

    def pids(self):
        """Those that still run; a zombie has no environment and is not listed."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and self.environment(entry).get(TAG) == self.tag:
                found.append(int(entry))
        return found

    def ranks(self):
        """Rank -> pids, data workers included."""
        found = {}
        for pid in self.pids():
            rank = self.environment(pid).get("RANK")
            if rank is not None:
                found.setdefault(int(rank), []).append(pid)
        return found

    def kill(self, pids):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


@dataclass
class Version:
    """One version of the report, and when it was first seen."""
    t: float
    report: dict

    def findings(self, *states):
        return [f for f in self.report["findings"] if not states or f["state"] in states]


def brief(finding):
    return {k: finding[k] for k in ("class", "cause", "ranks", "team", "state", "summary")}


def same(one, other):
    """Equal but for the numbers in the summary, which grow from version to version."""
    return all(one[k] == other[k] for k in one if k != "summary")


class Watcher(threading.Thread):
    """Reads the report file whenever it was replaced. A version that is no JSON fails the test."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.versions, self.broken = path, [], []
        self._seen, self._over = None, threading.Event()

    def look(self):
        try:
            with open(self.path, "rb") as file:
                stat = os.fstat(file.fileno())
                key = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
                if key == self._seen:
                    return
                now, text = time.time(), file.read()
        except FileNotFoundError:
            return
        self._seen = key
        try:
            self.versions.append(Version(now, json.loads(text)))
        except ValueError as error:
            self.broken.append(f"{error}: {text[:200]!r}")

    def run(self):
        while not self._over.wait(POLL_S):
            self.look()

    def close(self):
        self._over.set()
        self.join()
        self.look()


class JobRun:
    """One job under `flare run`. Use as a context: leaving it leaves nothing running."""

    def __init__(self, folder, command, flare_args=(), env=None, under_flare=True):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tagged = Tagged()
        self.segments = Path("/dev/shm") / f"flare-test-{self.tagged.tag[:12]}"
        self.segments.mkdir(mode=0o700)
        self.events_path = self.folder / "events.jsonl"
        self.report_path = self.folder / "report.json"
        self.state = self.folder / "state"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("FLARE_", "TORCHELASTIC"))}
        self.env.update({TAG: self.tagged.tag, "FLARE_DIR": str(self.segments), "OMP_NUM_THREADS": "1",
                         "TMPDIR": str(self.folder), **(env or {})})
        wrapper = [program("flare"), "run", "--state", str(self.state), "--report-json",
                   str(self.report_path), "-q", *flare_args, "--"] if under_flare else []
        self.command = [*wrapper, *command, "--events", str(self.events_path)]
        self.watcher = Watcher(self.report_path)

    def __enter__(self):
        with open(self.folder / "out", "wb") as out, open(self.folder / "err", "wb") as err:
            self.process = subprocess.Popen(self.command, env=self.env, stdout=out, stderr=err,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
        self.watcher.start()
        return self

    def __exit__(self, *exc):
        self.tagged.kill(self.tagged.pids())
        self.process.wait()
        self.watcher.close()
        shutil.rmtree(self.segments, ignore_errors=True)

    def text(self):
        """Tail of what the job wrote, for messages of failed tests."""
        return "".join(f"--- {n}\n{(self.folder / n).read_text(errors='replace')[-3000:]}\n"
                       for n in ("out", "err"))

    def losses(self):
        lines = (self.folder / "out").read_text(errors="replace").splitlines()
        return [line for line in lines if line.startswith("step ")]

    def events(self, name=None):
        try:
            lines = self.events_path.read_text().splitlines()
        except FileNotFoundError:
            return []
        found = [json.loads(line) for line in lines]
        return [e for e in found if name in (None, e["event"])]

    def wait_for_event(self, name, seconds):
        def seen():
            assert self.process.poll() is None or self.events(name), self.text()
            return self.events(name)
        return wait_until(seen, seconds, lambda: f"event {name}\n{self.text()}")[0]

    def wait_for_finding(self, match, seconds):
        """(version, finding) of the first version of the report with a finding that matches."""
        def seen():
            for version in list(self.watcher.versions):
                for finding in version.findings():
                    if match(finding):
                        return version, finding
            return None
        return wait_until(seen, seconds, lambda: f"the finding; so far {self.all_findings()}\n"
                          f"{self.text()}")

    def all_findings(self, until=float("inf")):
        """Every different thing ever said, in the words in which it was said first."""
        said = []
        for version in self.watcher.versions:
            for finding in version.findings():
                if version.t <= until and not any(same(brief(finding), old) for old in said):
                    said.append(brief(finding))
        return said

    def wait(self, seconds):
        """Exit status once the command is over and the last report is read."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s\n{self.text()}") from None
        self.watcher.look()
        assert not self.watcher.broken, self.watcher.broken
        return status

    def kill_ranks(self):
        """Ends the job the hard way: stopped and stuck ranks ignore gentler ones."""
        for pids in self.tagged.ranks().values():
            self.tagged.kill(pids)

    def assert_nothing_left(self):
        """After the command ended: no process, no segment, no address file."""
        wait_until(lambda: not self.tagged.pids(), 5, f"end of {self.tagged.pids()}")
        segments = [p.name for p in self.segments.glob("*.seg")]
        assert not segments, f"segments left: {segments}"
        assert not (self.state / "engine.addr").exists()
