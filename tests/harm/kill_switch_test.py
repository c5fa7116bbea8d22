# SPDX-License-Identifier: Apache-2.0
"""Everybody who may want silence gets it within a step, without a restart: the user by a variable,
the node by a file, the engine by a field of the segment. The program never notices."""
import shutil
import subprocess
import tempfile
from pathlib import Path

import job
import preload
import pytest

SOURCES = Path(__file__).with_name("awkward")


@pytest.fixture(scope="module", name="stepper")
def fixture_stepper(tmp_path_factory) -> Path:
    return preload.compile_c(SOURCES / "stepper.c", tmp_path_factory.mktemp("bin") / "stepper")


@pytest.fixture(name="shm")
def fixture_shm():
    folder = Path(tempfile.mkdtemp(prefix="flare-switch-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def events(segment: Path) -> int:
    facts = preload.peek(segment)
    return facts["events"] + facts["dropped"]


def woken_after(stepper: Path, env: dict, folder: Path) -> bool:
    with job.Stepper(stepper, env) as program:
        program.step(10)
        assert program.finish() == 5
    return len(preload.segments(folder)) > 0


def test_variable_keeps_it_asleep(stepper, shm):
    env = preload.environment(preload.FORCED, shm)
    assert not woken_after(stepper, dict(env, FLARE_DISABLE="1"), shm)
    assert woken_after(stepper, dict(env, FLARE_DISABLE="0"), shm)


def test_file_keeps_new_processes_asleep_until_removed(stepper, shm):
    env = preload.environment(preload.FORCED, shm)
    (shm / "disable").touch()
    assert not woken_after(stepper, env, shm)
    (shm / "disable").unlink()
    assert woken_after(stepper, env, shm)


def test_file_of_the_node(stepper, shm):
    preload.need_root("/run/flare")
    env = preload.environment(preload.FORCED, shm)
    env["LATER_PRELOAD"] = env.pop("LD_PRELOAD")
    script = (f"mount -t tmpfs t /run; mkdir /run/flare; touch /run/flare/disable; "
              f"env LD_PRELOAD=$LATER_PRELOAD {stepper}")
    outcome = preload.run(["unshare", "-m", "/bin/sh", "-c", script], env, stdin=b"10\n")
    assert (outcome.status, outcome.stderr) == (5, b"")
    assert preload.segments(shm) == []


def test_file_silences_a_running_program(stepper, shm):
    with job.Stepper(stepper, preload.environment(preload.FORCED, shm)) as program:
        program.step(10)
        [segment] = preload.segments(shm)
        assert events(segment) == 10
        (shm / "disable").touch()

        def silent():
            program.step(1)
            return preload.peek(segment)["enabled"] == 0
        # The file is looked for at most five times a second, however short the steps are.
        job.wait_until(silent, 5, "the file is seen at a step")
        before = events(segment)
        program.step(20000)
        assert events(segment) == before
        assert program.finish() == 5


def test_field_of_the_segment_switches_off_and_on(stepper, shm):
    with job.Stepper(stepper, preload.environment(preload.FORCED, shm)) as program:
        program.step(10)
        [segment] = preload.segments(shm)
        preload.peek(segment, "disable")
        program.step(1000)
        assert events(segment) == 10
        preload.peek(segment, "enable")
        program.step(5)
        assert events(segment) == 15
        assert program.finish() == 5


def heads(segments: list[Path]) -> list[int]:
    return [events(segment) for segment in segments]


@pytest.mark.parametrize("way", ["file", "field"])
def test_live_training_job_falls_silent_and_goes_on(way):
    arguments = ("--steps", 120)
    want = job.reference(*arguments)
    with job.TrainingJob(preload.INERT, *arguments) as training:
        training.wait_for_steps(5)
        segments = training.segments()
        before = heads(segments)
        training.wait_for_steps(training.steps() + 5)
        assert all(now > then for now, then in zip(heads(segments), before)), "nothing to silence"
        if way == "file":
            (training.segment_dir / "disable").touch()
        else:
            for segment in segments:
                preload.peek(segment, "disable")
        job.wait_until(lambda: all(preload.peek(s)["enabled"] == 0 for s in segments), 5,
                       "every rank is switched off")
        # A hook that was already past the check may still write its event.
        training.wait_for_steps(training.steps() + 2)
        silent = heads(segments)
        training.wait_for_steps(training.steps() + 20)
        assert heads(segments) == silent
        assert training.finish() == want


def test_command_line_switches_a_live_job_off():
    flare = preload.build_dir() / "bin" / "flare"
    if not flare.exists():
        pytest.skip("the command line is not built")
    if subprocess.run([flare, "switch", "--help"], capture_output=True, check=False).returncode:
        pytest.skip("this flare has no `switch`")
    arguments = ("--steps", 150)
    want = job.reference(*arguments)
    with tempfile.TemporaryDirectory() as state, \
            job.TrainingJob(preload.INERT, *arguments) as training:
        address = f"unix:{state}/engine.sock"
        engine, daemon = start_services(address, Path(state), training.segment_dir)
        try:
            training.wait_for_steps(5)
            segments = training.segments()

            def switched():
                return subprocess.run([flare, "switch", "--engine", address, "harm", "off"],
                                      capture_output=True, check=False).returncode == 0
            job.wait_until(switched, 20, "the engine knows the job")
            job.wait_until(lambda: all(preload.peek(s)["enabled"] == 0 for s in segments), 15,
                           "every rank is switched off")
            assert training.finish() == want
        finally:
            for process in (daemon, engine):
                process.kill()
                process.wait()


def start_services(address: str, state: Path, segment_dir: Path) -> tuple:
    binaries = preload.build_dir() / "bin"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    engine = subprocess.Popen([binaries / "flare-engine", "--listen", address, "--state-dir", state],
                              **quiet)
    job.wait_until((state / "engine.sock").exists, 10, "the engine listens")
    daemon = subprocess.Popen([binaries / "flared", "--engine", address, "--segment-dir",
                               segment_dir, "--spool-dir", state / "spool"], **quiet)
    return engine, daemon
