# SPDX-License-Identifier: Apache-2.0
"""The memory that libflare maps cannot hurt the program, whatever happens to the file below it.

/dev/shm small, full, read-only or missing when the program starts; the segment removed or truncated
while it runs. The program goes on and ends as it would; nothing half-made is left behind.
"""
import os
import shutil
import signal
import tempfile
from pathlib import Path

import job
import preload
import pytest

SOURCES = Path(__file__).with_name("awkward")
KIB = 1024


@pytest.fixture(scope="module", name="stepper")
def fixture_stepper(tmp_path_factory) -> Path:
    return preload.compile_c(SOURCES / "stepper.c", tmp_path_factory.mktemp("bin") / "stepper")


@pytest.fixture(name="shm")
def fixture_shm():
    folder = Path(tempfile.mkdtemp(prefix="flare-shm-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def run_with_dev_shm(prepare: str, stepper: Path, mode: str, report: Path) -> preload.Outcome:
    """Runs 20,000 steps in a mount namespace; `report` gets names and sizes of what is left."""
    preload.need_root("mounts")
    env = preload.environment(mode)
    env["LATER_PRELOAD"] = env.pop("LD_PRELOAD", "")
    script = (f"{prepare}; env ${{LATER_PRELOAD:+\"LD_PRELOAD=$LATER_PRELOAD\"}} {stepper}; "
              f"status=$?; find /dev/shm -type f -printf '%f %s\\n' > {report}; exit $status")
    return preload.run(["unshare", "-m", "/bin/sh", "-c", script], env, stdin=b"10000\n10000\n")


def left_over(report: Path) -> list[tuple[str, int]]:
    lines = [line.split() for line in report.read_text().splitlines()]
    return [(name, int(size)) for name, size in lines if name != "filler"]


TMPFS = "mount -t tmpfs -o size={size} t /dev/shm"
FULL = TMPFS + "; head -c {filler} /dev/zero > /dev/shm/filler"


@pytest.mark.parametrize("prepare", [
    pytest.param(TMPFS.format(size="64k"), id="64 KiB"),
    pytest.param(FULL.format(size="16m", filler=16 << 20), id="full"),
    pytest.param(FULL.format(size="16m", filler=(16 << 20) - 100 * KIB), id="100 KiB left"),
    pytest.param(TMPFS.format(size="16m") + "; mount -o remount,ro /dev/shm", id="read-only"),
    pytest.param("mount -t tmpfs t /dev; mknod -m 666 /dev/null c 1 3", id="missing"),
    pytest.param(TMPFS.format(size="16m,nr_inodes=2"), id="no inode for the file"),
])
def test_no_room_leaves_the_program_alone(prepare, stepper, tmp_path):
    report = tmp_path / "left"
    bare = run_with_dev_shm(prepare, stepper, preload.BARE, report)
    assert bare.status == 5
    assert run_with_dev_shm(prepare, stepper, preload.FORCED, report) == bare
    # With /dev missing the library may make /dev/shm in the empty tmpfs; elsewhere it stays inert.
    if "t /dev;" not in prepare:
        assert left_over(report) == []


@pytest.mark.parametrize("size", ["600k", "1m", "4m"])
def test_little_room_gives_a_smaller_segment(size, stepper, tmp_path):
    """Allocated in full: as many blocks as bytes, so no page of it can be missing later."""
    report = tmp_path / "left"
    bare = run_with_dev_shm(TMPFS.format(size=size), stepper, preload.BARE, report)
    assert run_with_dev_shm(TMPFS.format(size=size), stepper, preload.FORCED, report) == bare
    [(name, bytes_)] = left_over(report)
    assert name.endswith(".seg")
    limit = int(size[:-1]) * (KIB if size.endswith("k") else KIB * KIB)
    assert 0 < bytes_ <= limit


def test_segment_is_never_sparse(stepper, shm):
    with job.Stepper(stepper, preload.environment(preload.FORCED, shm)):
        [segment] = preload.segments(shm)
        assert segment.stat().st_blocks * 512 >= segment.stat().st_size


def test_segment_is_its_owners_alone(stepper, shm):
    """Who may truncate it: the user of the job and root, nobody else."""
    folder = shm / "made-by-flare"
    with job.Stepper(stepper, preload.environment(preload.FORCED, folder)):
        [segment] = preload.segments(folder)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert segment.stat().st_mode & 0o777 == 0o600


def remove(segment: Path) -> None:
    segment.unlink()


def truncate_to(length: int):
    return lambda segment: os.truncate(segment, length)


def remove_folder(segment: Path) -> None:
    shutil.rmtree(segment.parent)


@pytest.mark.parametrize("damage", [
    pytest.param(remove, id="removed"),
    pytest.param(remove_folder, id="folder removed"),
    pytest.param(truncate_to(0), id="truncated to nothing"),
    pytest.param(truncate_to(4096), id="truncated to its header"),
    pytest.param(truncate_to(300 * KIB), id="truncated in the rings"),
])
def test_damage_while_running(damage, stepper, shm):
    folder = shm / "made-by-flare"
    with job.Stepper(stepper, preload.environment(preload.FORCED, folder)) as program:
        program.step(100)
        [segment] = preload.segments(folder)
        damage(segment)
        program.step(20000)
        program.step(20000)
        assert program.finish() == 5


def test_real_bus_error_still_ends_the_program(stepper, shm):
    """After our guard has answered a fault of ours, others are as they were: crash.c covers the rest."""
    with job.Stepper(stepper, preload.environment(preload.FORCED, shm)) as program:
        program.step(10)
        [segment] = preload.segments(shm)
        os.truncate(segment, 0)
        program.step(20000)
        program.process.send_signal(signal.SIGBUS)
        assert program.finish() == -7


def test_handler_of_the_program_stays(stepper, shm):
    with job.Stepper(stepper, preload.environment(preload.FORCED, shm), "bus") as program:
        program.step(10)
        assert len(preload.segments(shm)) == 1
        program.process.send_signal(signal.SIGBUS)
        assert program.finish() == 77


def test_truncated_under_a_training_job():
    arguments = ("--steps", 60)
    want = job.reference(*arguments)
    with job.TrainingJob(preload.INERT, *arguments) as training:
        training.wait_for_steps(5)
        for segment in training.segments():
            os.truncate(segment, 0)
        assert training.finish() == want
