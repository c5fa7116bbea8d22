# SPDX-License-Identifier: Apache-2.0
"""flare-engine and flared as a person starts them, and a job preloaded by hand."""
import socket
import sqlite3
import subprocess
from pathlib import Path

import harness


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def answers(address):
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


class Services:
    """One engine and one daemon; each may be started, killed and started again."""

    def __init__(self, run):
        self.run, self.address = run, free_address()
        self.processes = {}

    def start_engine(self):
        self._start("engine", [harness.program("flare-engine"), "--listen", self.address,
                               "--state-dir", str(self.run.state)])
        harness.wait_until(lambda: answers(self.address) or self._gone("engine"), 20,
                           f"{self.address} answers")
        assert not self._gone("engine"), self.log("engine")

    def start_daemon(self):
        self._start("daemon", [harness.program("flared"), "--engine", self.address,
                               "--spool-dir", str(self.run.folder / "spool")])

    def _start(self, name, command):
        with open(self.run.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(command, env=self.run.env, stdout=log, stderr=log,
                                                    stdin=subprocess.DEVNULL)

    def _gone(self, name):
        return self.processes[name].poll() is not None

    def kill(self, name):
        """SIGKILL: nothing can be flushed or said good-bye to."""
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self, name, seconds=20):
        """SIGTERM; the exit status."""
        self.processes[name].terminate()
        return self.processes[name].wait(seconds)

    def log(self, name):
        return (self.run.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def steps(self):
        """(rank, step) of every row the engine has stored; None before there is a database."""
        path = Path(self.run.state) / "flare.db"
        if not path.exists():
            return None
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10) as database:
            return database.execute("SELECT rank, step FROM steps ORDER BY rank, step").fetchall()

    def cli(self, *args):
        done = subprocess.run([harness.program("flare"), *args], env=self.run.env, timeout=30,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, (args, done.stdout, done.stderr)
        return done.stdout


def preloaded(command):
    """The command with libflare preloaded in its environment, nothing else."""
    return ["env", f"LD_PRELOAD={harness.preload_library()}", *command]
