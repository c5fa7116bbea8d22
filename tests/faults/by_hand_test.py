# SPDX-License-Identifier: Apache-2.0
"""flare-engine &, flared &, LD_PRELOAD=… torchrun …, flare report: no `flare run` involved."""
import json

import harness
import services

FINDING_S = 10
START_S = 90


def test_finds_a_stopped_rank_of_a_job_preloaded_by_hand(start_job, note):
    command = [*harness.torchrun(2), *harness.train("--steps", 100000, "--fault", "stop,step=25")]
    run = start_job(services.preloaded(command), under_flare=False, env={"FLARE_JOB_NAME": "by-hand"})
    place = services.Services(run)
    place.start_engine()
    place.start_daemon()

    struck = run.wait_for_event("fault", START_S)["t"]

    def found():
        jobs = json.loads(place.cli("jobs", "--json", "--engine", place.address))["jobs"]
        if not jobs:
            return None
        report = json.loads(place.cli("report", "by-hand", "--json", "--engine", place.address))
        findings = [f for f in report["findings"] if f["state"] == "open"]
        return findings and (report, findings, harness.time.time())

    report, findings, now = harness.wait_until(found, FINDING_S + 10, "an open finding")
    note(seconds=round(now - struck, 2))
    assert [(f["cause"], f["ranks"]) for f in findings] == [("process_stopped", [1])]
    assert now - struck <= FINDING_S
    assert report["job"]["name"] == "by-hand" and report["job"]["world_size"] == 2
    text = place.cli("report", "--engine", place.address)
    assert "process_stopped" in text and "rank 1" in text.lower(), text

    run.kill_ranks()
    run.wait(60)
    assert place.stop("daemon") == 0, place.log("daemon")
    assert place.stop("engine") == 0, place.log("engine")
    run.assert_nothing_left()
    stored = json.loads(place.cli("report", "by-hand", "--json", "--state", str(run.state)))
    assert [f["cause"] for f in stored["findings"]][:1] == ["process_stopped"]
