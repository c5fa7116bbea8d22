# SPDX-License-Identifier: Apache-2.0
"""libflare never touches the heap: not when inert, not to wake, not to record, not to leave.

A counting allocator is preloaded after it. So no failure of malloc can reach libflare at all.
"""
import os
import shutil
import subprocess
from pathlib import Path

import preload
import pytest

SOURCES = Path(__file__).with_name("awkward")
ALLOCATORS = {"malloc", "calloc", "realloc", "free", "memalign", "posix_memalign", "aligned_alloc",
              "strdup", "strndup", "_Znwm", "_Znam", "fopen", "opendir", "getline", "asprintf"}


@pytest.fixture(scope="module", name="counter")
def fixture_counter(tmp_path_factory) -> Path:
    return preload.compile_c(SOURCES / "count_allocations.c",
                             tmp_path_factory.mktemp("shim") / "count_allocations.so",
                             ("-shared", "-fPIC", "-fno-builtin"))


@pytest.fixture(scope="module", name="life")
def fixture_life(tmp_path_factory) -> Path:
    return preload.compile_c(SOURCES / "life.c", tmp_path_factory.mktemp("life") / "life")


def allocations(command: list, mode: str, counter: Path, place: Path) -> int:
    report, shm = place / "count.txt", place / "segments"
    shm.mkdir(mode=0o700, exist_ok=True)
    env = preload.environment(mode, shm, with_libraries=(str(counter),))
    env["ALLOCATION_REPORT"] = str(report)
    preload.run(command, env)
    woken = len(preload.segments(shm)) > 0
    assert woken == (mode == preload.FORCED)
    shutil.rmtree(shm)
    return int(report.read_text())


@pytest.mark.parametrize("mode", preload.MODES)
@pytest.mark.parametrize("name", ["life", "true", "cat"])
def test_no_allocation_is_added(name, mode, counter, life, tmp_path):
    command = [life] if name == "life" else [shutil.which(name), *(["/dev/null"] * (name == "cat"))]
    bare = allocations(command, preload.BARE, counter, tmp_path)
    assert allocations(command, mode, counter, tmp_path) == bare


def test_library_refers_to_no_allocator():
    listed = subprocess.run(["nm", "-D", "--undefined-only", preload.library()],
                            capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].split("@")[0] for line in listed.splitlines() if line.strip()}
    assert names and not names & ALLOCATORS


def test_counter_counts(counter, tmp_path):
    """A program that must ask for more memory is seen to."""
    sort = [shutil.which("sort"), "/etc/services" if os.path.exists("/etc/services") else __file__]
    assert allocations(sort, preload.BARE, counter, tmp_path) > 10
