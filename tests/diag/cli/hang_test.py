# SPDX-License-Identifier: Apache-2.0
"""A real job of two ranks hangs under `flare run`: what is said, and how it ends."""
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from flare_command import check_report, flare, wait_for  # noqa: F401

JOB = """
import os, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
os.write(1, b"rank %d pid %d\\n" % (rank, os.getpid()))  # at once: lines of ranks must not mix
model = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(100000):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.02)  # stands for the rest of a step
    if rank == 0 and step == 50:
        os.write(1, b"fifty\\n")
"""


class HangingJob:
    """Two ranks, of which rank 1 is stopped after fifty steps."""

    def __init__(self, flare, folder, *options):
        self.report_path = folder / "report.json"
        (folder / "train.py").write_text(JOB)
        self.run = flare.start(
            "run", "--report-json", self.report_path, *options, "--", sys.executable, "-m",
            "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
            folder / "train.py", stdout=subprocess.PIPE, stderr=open(folder / "stderr", "wb"))
        self.pids = {}
        for line in self.run.stdout:
            if match := re.match(rb"rank (\d) pid (\d+)", line):
                self.pids[int(match[1])] = int(match[2])
            if line == b"fifty\n":
                break
        os.kill(self.pids[1], signal.SIGSTOP)

    def report(self):
        document = json.loads(self.report_path.read_text())
        check_report(document)
        return document

    def findings(self, state):
        return [(f["class"], f["cause"], f["ranks"]) for f in self.report()["findings"]
                if f["state"] == state]

    def end(self):
        for pid in self.pids.values():
            try:
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.run.kill()
        self.run.wait()


@pytest.fixture
def hang(flare, tmp_path):
    jobs = []

    def start(*options):
        jobs.append(HangingJob(flare, tmp_path, *options))
        return jobs[0]

    yield start
    for job in jobs:
        job.end()


STOPPED = ("hang", "process_stopped", [1])


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def test_kill_on_hang_ends_command_and_ranks_and_keeps_the_finding(flare, hang):
    job = hang("--kill-on-hang")
    assert job.run.wait() in (128 + signal.SIGTERM, 128 + signal.SIGKILL, 1)
    wait_for(lambda: all(gone(pid) for pid in job.pids.values()), "the end of the ranks")
    assert job.findings("resolved") == [STOPPED]
    assert job.findings("open") == []
    text = flare("report").stdout.decode()
    assert re.search(r"for [1-9]\d* s until the job ended", text), text
    assert flare("report", "--fail-on", "hang").returncode == 3
    assert flare("report", "--fail-on", "slow,error", "train").returncode == 0


def test_finding_is_told_and_stays_when_the_user_ends_the_job(flare, hang, tmp_path):
    job = hang()
    wait_for(lambda: job.findings("open") == [STOPPED], "the finding")
    assert b"hang/process_stopped" in flare("report").stdout
    job.run.send_signal(signal.SIGTERM)
    wait_for(lambda: gone(job.pids[0]), "the end of the healthy rank")
    os.kill(job.pids[1], signal.SIGCONT)
    job.run.wait()
    assert [(f["class"], f["cause"]) for f in job.report()["findings"]] == [STOPPED[:2]]
    said = (tmp_path / "stderr").read_text()
    assert said.count("flare: hang/process_stopped") == 1
    assert "1 finding in train" in said
