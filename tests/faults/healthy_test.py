# SPDX-License-Identifier: Apache-2.0
"""Jobs that look wrong for a while and are not: no finding about them may ever be open.

Each has its counterpart in hang_test.py or slow_test.py. A suspicion is allowed if it is withdrawn.
"""
import json

import harness
import pytest

LIMIT_S = 180

# name -> (ranks, arguments of train.py, exit status)
JOBS = {
    # Each of these holds one rank up for a few seconds, as the faults do for ever.
    "long_pauses_that_end": (2, ["--steps", 60, "--num-workers", 1,
                                 "--fault", "loop,step=20,arg=5", "--fault", "fifo,step=24,arg=5",
                                 "--fault", "deadlock,step=28,arg=5", "--fault", "pause,step=32,arg=5",
                                 "--fault", "data_stall,step=40,arg=6"], 0),
    "uneven_steps": (3, ["--steps", 80, "--fault", "uneven,rank=-1,step=5"], 0),
    "evaluation_on_rank_0": (2, ["--steps", 60, "--fault", "eval,rank=0,step=30,arg=20"], 0),
    "checkpoint_on_rank_0": (2, ["--steps", 60, "--fault", "checkpoint,rank=0,step=30,arg=20"], 0),
    "accumulation_and_own_groups": (3, ["--steps", 80, "--accumulate", 4, "--pairs",
                                        "--uneven-sizes"], 0),
    "two_groups_in_one_order": (3, ["--steps", 60, "--metric-groups", 2], 0),
    "first_step_compiles": (2, ["--steps", 40, "--fault", "compile,rank=0,step=0,arg=12",
                                "--fault", "compile,rank=1,step=0,arg=9"], 0),
    "collections_of_a_large_heap": (2, ["--steps", 60, "--fault", "gc,rank=0,step=20,arg=2,every=20",
                                        "--fault", "gc,rank=1,step=30,arg=2,every=20"], 0),
    "shorter_than_five_seconds": (2, ["--steps", 3], 0),
    "all_ranks_slow_down_alike": (2, ["--steps", 150, "--fault", "slow_compute,rank=-1,step=40"], 0),
    "sharded": (2, ["--steps", 60, "--fsdp"], 0),
}


def open_findings(run):
    return [f for f in run.all_findings() if f["state"] in ("open", "resolved")]


@pytest.mark.parametrize("name", JOBS)
def test_no_open_finding(name, start_job, note):
    nproc, args, status = JOBS[name]
    run = start_job([*harness.torchrun(nproc), *harness.train(*args)])
    assert run.wait(LIMIT_S) == status, run.text()
    steps = len(run.losses())
    said = run.all_findings()
    note(steps=steps, said=[(f["cause"], f["ranks"], f["state"]) for f in said])
    assert steps == args[1]
    last = run.watcher.versions[-1]
    assert last.report["job"]["steps"] >= steps / 8, "the job was not seen at all"
    assert not open_findings(run), open_findings(run)
    assert all(f["state"] == "withdrawn" for f in last.findings()), said
    run.assert_nothing_left()


def test_uncaught_exception_accuses_no_hang(start_job, note):
    """One rank raises and the launcher ends the others: an error perhaps, but nobody hangs."""
    run = start_job([*harness.torchrun(2),
                     *harness.train("--steps", 100000, "--fault", "raise,rank=1,step=25")])
    assert run.wait(LIMIT_S) != 0
    said = run.all_findings()
    note(said=[(f["class"], f["cause"], f["ranks"], f["state"]) for f in said])
    assert "not finite" in (run.folder / "err").read_text(errors="replace")
    assert not [f for f in said if f["state"] in ("open", "resolved") and f["class"] != "error"], said
    assert not [f for f in said if f["ranks"] != [1]], said
    run.assert_nothing_left()


def test_losses_and_output_are_the_same_without_flare(start_job):
    command = [*harness.torchrun(2), *harness.train("--steps", 30)]
    with_flare, bare = start_job(command), None
    assert with_flare.wait(LIMIT_S) == 0
    bare = start_job(command, under_flare=False)
    assert bare.wait(LIMIT_S) == 0
    assert len(bare.losses()) == 30
    assert (with_flare.folder / "out").read_bytes() == (bare.folder / "out").read_bytes()
    json.loads(with_flare.report_path.read_text())
