# SPDX-License-Identifier: Apache-2.0
"""Jobs that stop moving: each must be named, with its cause and culprit, within ten seconds."""
from dataclasses import dataclass

import harness
import pytest

FINDING_S = 10      # from the fault to a report that names it
START_S = 90        # from the start of the command to the fault, on a busy machine
STEPS = 100000      # the job never ends by itself


@dataclass
class Scenario:
    name: str
    fault: str               # rank=, step= as in tests/jobs/faults.py
    cause: str
    team: str
    state: str               # of the first finding: "open" or "suspected"
    ranks: tuple = (1,)
    finding_class: str = "hang"
    nproc: int = 2
    launcher: object = harness.torchrun
    args: tuple = ()


SCENARIOS = [
    Scenario("stopped", "stop", "process_stopped", "operations", "open", nproc=3),
    Scenario("killed", "kill", "process_crashed", "operations", "open", nproc=3,
             finding_class="error", launcher=harness.launch),
    Scenario("skips_all_reduce", "skip_allreduce", "collective_skipped", "algorithm", "open", nproc=3,
             args=("--metric-groups", 1)),
    # DDP's buckets are larger than the loss: gloo aborts a healthy rank that receives one instead.
    Scenario("skips_all_reduce_of_ddp", "skip_allreduce", "collective_skipped", "algorithm", "open",
             nproc=3, finding_class="error"),
    Scenario("other_size", "wrong_size", "collective_mismatch", "algorithm", "open", nproc=3),
    Scenario("other_operation", "wrong_operation", "collective_mismatch", "algorithm", "open", nproc=3),
    Scenario("endless_loop", "loop", "user_code_stuck", "algorithm", "suspected"),
    Scenario("fifo_read", "fifo", "file_system_stall", "operations", "suspected"),
    Scenario("fifo_open", "fifo_open", "file_system_stall", "operations", "suspected"),
    Scenario("two_groups_crosswise", "group_order", "collective_order_cycle", "algorithm", "open",
             ranks=(0, 1), args=("--metric-groups", 2)),
    Scenario("data_worker_stalls", "data_stall", "data_loader_stall", "algorithm", "suspected",
             args=("--num-workers", 1)),
    Scenario("two_locks", "deadlock", "lock_deadlock", "algorithm", "suspected"),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_names_the_culprit_in_time(scenario, start_job, note):
    command = [*scenario.launcher(scenario.nproc),
               *harness.train("--steps", STEPS, "--fault", f"{scenario.fault},rank=1,step=25",
                              *scenario.args)]
    run = start_job(command)
    struck = run.wait_for_event("fault", START_S)["t"]

    def names_it(finding):
        return finding["cause"] == scenario.cause and tuple(finding["ranks"]) == scenario.ranks

    version, finding = run.wait_for_finding(names_it, FINDING_S + 10)
    note(cause=finding["cause"], state=finding["state"], seconds=round(version.t - struck, 2))
    assert (finding["class"], finding["team"]) == (scenario.finding_class, scenario.team), \
        harness.brief(finding)
    # A job that ends by the fault may be over before the next look: its end settles an open finding.
    settled = {"resolved"} if scenario.finding_class == "error" else set()
    assert finding["state"] in {scenario.state} | settled, harness.brief(finding)
    assert version.t - struck <= FINDING_S
    assert finding["summary"] and finding["action"] and finding["evidence"]

    accused = [f for f in run.all_findings(version.t) if tuple(f["ranks"]) != scenario.ranks]
    assert not accused, f"healthy ranks accused: {accused}"
    others = [f for f in version.findings("open") if f["cause"] != scenario.cause]
    assert not others, others

    run.kill_ranks()
    assert run.wait(60) != 0
    run.assert_nothing_left()


def test_killed_under_torchrun_accuses_nobody_else(start_job, note):
    """torchrun ends the other ranks within a tenth of a second: who died first may not be knowable."""
    run = start_job([*harness.torchrun(3), *harness.train("--steps", STEPS, "--fault", "kill,step=25")])
    assert run.wait(START_S) != 0
    said = run.all_findings()
    note(said=[(f["class"], f["cause"], f["ranks"], f["state"]) for f in said])
    assert len(run.losses()) >= 25
    assert all((f["cause"], f["ranks"]) == ("process_crashed", [1]) for f in said), said
    run.assert_nothing_left()
