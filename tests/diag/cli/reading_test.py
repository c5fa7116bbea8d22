# SPDX-License-Identifier: Apache-2.0
"""`flare jobs`, `report`, `watch` and `switch`, while a job runs and after it."""
import json
import signal
import subprocess
import sys

import pytest

from flare_command import check_report, flare, wait_for  # noqa: F401

# A rank without PyTorch: FLARE_FORCE wakes libflare in the interpreter itself.
RANK = "import sys; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def running(flare):
    """A job of one rank that runs until its stdin is closed."""
    process = flare.start("run", "-q", "--name", "reading", "--", sys.executable, "-c", RANK,
                          env={"FLARE_FORCE": "1", "RANK": "0", "WORLD_SIZE": "1"},
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    wait_for(lambda: flare.json("jobs")["jobs"], "the job in the list")
    yield process
    process.stdin.close()
    process.wait()


def test_running_job_is_seen_from_another_terminal(flare, running):
    job, = flare.json("jobs")["jobs"]
    assert job["name"] == "reading"
    assert job["state"] in ("running", "stalled")
    assert b"reading" in flare("jobs").stdout
    report = flare.json("report", "reading")
    check_report(report)
    assert report["job"]["id"] == job["id"]
    assert [r["rank"] for r in report["ranks"]] == [0]
    text = flare("report").stdout.decode()
    assert "reading" in text and "1 of 1 rank alive" in text


def test_job_is_there_after_it_has_ended(flare, running):
    running.stdin.close()
    assert running.wait() == 0
    report = flare.json("report")
    check_report(report)
    assert report["job"]["state"] == "ended"
    assert report["job"]["exit_status"] == 0
    assert flare.json("jobs")["jobs"][0]["state"] == "ended"
    for wanted in ("reading", report["job"]["id"], report["job"]["id"][:12]):
        assert flare("report", wanted).returncode == 0


def test_watch_ends_with_the_job(flare, running):
    watch = flare.start("watch", "--json", stdout=subprocess.PIPE)
    first = json.loads(watch.stdout.readline())
    check_report(first)
    running.stdin.close()
    documents = [json.loads(line) for line in watch.stdout]
    assert watch.wait() == 0
    for document in documents:
        check_report(document)
    assert (documents or [first])[-1]["job"]["state"] == "ended"


def test_watch_is_interrupted(flare, running):
    watch = flare.start("watch", "--json", stdout=subprocess.PIPE)
    watch.stdout.readline()
    watch.send_signal(signal.SIGINT)
    assert watch.wait() == 130


def test_switch_tells_the_rank(flare, running):
    document = flare.json("switch", "reading", "off")
    assert document["enabled"] is False and document["daemons"] == 1
    assert b"switched on" in flare("switch", "reading", "on").stdout


def test_unknown_job_names_the_nearest(flare, running):
    result = flare("report", "raeding")
    assert result.returncode == 1
    assert b"did you mean 'reading'?" in result.stderr


def test_fail_on_passes_a_healthy_job(flare, running):
    assert flare("report", "--fail-on", "any").returncode == 0


def test_ended_job_cannot_be_switched(flare, running):
    running.stdin.close()
    running.wait()
    result = flare("switch", "reading", "off")
    assert result.returncode == 1
    assert b"no engine runs for this job" in result.stderr
