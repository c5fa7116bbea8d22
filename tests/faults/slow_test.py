# SPDX-License-Identifier: Apache-2.0
"""Jobs that move, but slower than they could because of one rank."""
import harness
import pytest

FINDING_S = 10
START_S = 90

# name -> (ranks, fault of rank 1, cause, team, more arguments)
SLOW = {
    "compute_30_percent_slower": ("slow_compute", "compute_slow", "operations", ()),
    "data_worker_slow": ("slow_data,arg=0.2", "data_worker_slow", "algorithm", ("--num-workers", 1)),
}


@pytest.mark.parametrize("name", SLOW)
def test_names_the_slow_rank_in_time(name, start_job, note):
    fault, cause, team, args = SLOW[name]
    run = start_job([*harness.torchrun(2),
                     *harness.train("--steps", 100000, "--fault", f"{fault},rank=1,step=60", *args)])
    struck = run.wait_for_event("fault", START_S)["t"]
    version, finding = run.wait_for_finding(
        lambda f: f["class"] == "fail_slow" and f["ranks"] == [1], FINDING_S + 20)
    note(cause=finding["cause"], state=finding["state"], seconds=round(version.t - struck, 2),
         summary=finding["summary"])
    assert (finding["cause"], finding["team"]) == (cause, team), harness.brief(finding)
    assert version.t - struck <= FINDING_S
    # A suspicion may come and go: on a shared machine a neighbour's load slows a rank for a while.
    assert not [f for f in run.all_findings(version.t)
                if f["ranks"] != [1] and f["state"] == "open"], run.all_findings()
    run.kill_ranks()
    run.wait(60)
    run.assert_nothing_left()
