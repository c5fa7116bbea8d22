# SPDX-License-Identifier: Apache-2.0
"""Daemon or engine absent, killed, restarted: the job never notices, and the count of steps is right."""
import harness
import pytest
import services

RANKS, STEPS = 2, 300
LIMIT_S = 240
COMMAND = [*harness.torchrun(RANKS), *harness.train("--steps", STEPS)]


@pytest.fixture(scope="module", name="bare_losses")
def fixture_bare_losses(tmp_path_factory):
    with harness.JobRun(tmp_path_factory.mktemp("bare"), COMMAND, under_flare=False) as run:
        assert run.wait(LIMIT_S) == 0, run.text()
        losses = run.losses()
    assert len(losses) == STEPS
    return losses


def start(start_job):
    run = start_job(services.preloaded(COMMAND), under_flare=False)
    return run, services.Services(run)


def wait_for_step(run, step):
    def reached():
        assert run.process.poll() is None, run.text()
        return len(run.losses()) > step
    harness.wait_until(reached, LIMIT_S, f"step {step}")


def assert_job_unharmed(run, bare_losses):
    assert run.wait(LIMIT_S) == 0, run.text()
    assert run.losses() == bare_losses
    assert "flare" not in (run.folder / "err").read_text().lower()


def assert_each_step_stored_once(place):
    """Every step of every rank exactly once, also those that a killed daemon had in its memory."""
    def stored_last():
        rows = place.steps() or []
        return all((rank, STEPS - 1) in rows for rank in range(RANKS))
    harness.wait_until(stored_last, 30, lambda: f"the last step is stored; have {place.steps()[-3:]}\n"
                       f"{place.log('engine')}\n{place.log('daemon')}")
    rows = place.steps()
    assert len(rows) == len(set(rows)), "steps stored twice"
    for rank in range(RANKS):
        missing = set(range(1, STEPS)) - {step for r, step in rows if r == rank}
        assert not missing, f"rank {rank}: steps {sorted(missing)} are not stored"
    made_up = {step for _, step in rows if step > STEPS}
    assert not made_up, f"steps that the job did not make: {made_up}"


def test_nobody_listens(start_job, bare_losses):
    run, _ = start(start_job)
    assert_job_unharmed(run, bare_losses)


def test_daemon_and_engine_come_late(start_job, bare_losses):
    run, place = start(start_job)
    wait_for_step(run, 80)
    place.start_daemon()
    wait_for_step(run, 120)
    place.start_engine()
    assert_job_unharmed(run, bare_losses)
    assert_each_step_stored_once(place)


def test_daemon_is_killed_and_restarted(start_job, bare_losses):
    run, place = start(start_job)
    place.start_engine()
    place.start_daemon()
    wait_for_step(run, 80)
    before = harness.wait_until(place.steps, 20, "first steps are stored")
    place.kill("daemon")
    wait_for_step(run, 130)
    place.start_daemon()
    assert_job_unharmed(run, bare_losses)
    assert_each_step_stored_once(place)
    assert set(before) <= set(place.steps()), "stored steps were lost"


def test_engine_is_killed_and_restarted(start_job, bare_losses):
    run, place = start(start_job)
    place.start_engine()
    place.start_daemon()
    wait_for_step(run, 80)
    before = harness.wait_until(place.steps, 20, "first steps are stored")
    place.kill("engine")
    wait_for_step(run, 130)
    assert set(before) <= set(place.steps()), "stored steps were lost"
    place.start_engine()
    assert_job_unharmed(run, bare_losses)
    assert_each_step_stored_once(place)


def test_both_are_killed_in_turn_again_and_again(start_job, bare_losses):
    run, place = start(start_job)
    place.start_engine()
    place.start_daemon()
    for step in range(50, 250, 50):
        wait_for_step(run, step)
        place.kill("daemon")
        place.start_daemon()
        wait_for_step(run, step + 25)
        place.kill("engine")
        place.start_engine()
    assert_job_unharmed(run, bare_losses)
    assert_each_step_stored_once(place)
