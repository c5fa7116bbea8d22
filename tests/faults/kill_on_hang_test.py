# SPDX-License-Identifier: Apache-2.0
"""flare run --kill-on-hang ends a job that cannot go on, and no other."""
import time

import harness

START_S = 90


def test_ends_a_job_with_a_stopped_rank(start_job, note):
    run = start_job([*harness.torchrun(2), *harness.train("--steps", 100000, "--fault", "stop,step=25")],
                    flare_args=("--kill-on-hang",))
    struck = run.wait_for_event("fault", START_S)["t"]
    status = run.wait(60)
    note(seconds=round(time.time() - struck, 2), status=status)
    assert status not in (0, None)
    last = run.watcher.versions[-1]
    causes = [(f["cause"], f["ranks"], f["state"]) for f in last.findings()]
    assert causes == [("process_stopped", [1], "resolved")], causes
    run.assert_nothing_left()


def test_leaves_a_job_alone_that_is_only_suspected(start_job):
    run = start_job([*harness.torchrun(2), *harness.train("--steps", 50, "--fault", "pause,step=25,arg=8")],
                    flare_args=("--kill-on-hang",))
    assert run.wait(START_S) == 0, run.text()
    assert len(run.losses()) == 50
    run.assert_nothing_left()
