# SPDX-License-Identifier: Apache-2.0
"""Every system call that libflare makes may fail, one at a time, and the program never notices.

strace with stack traces tells which calls of a woken program come from libflare (the innermost frame
outside the C library is ours); then each of them is made to fail with each error, by its number among
the calls of that name, and output and status must be those of the bare program.
"""
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import preload
import pytest

SOURCES = Path(__file__).with_name("awkward")
ERRORS = ("ENOSPC", "ENOMEM", "EACCES", "EMFILE", "EINTR", "ENOSYS")
LEAST_CASES = 60
# Forwarded for the program by our wrappers: the call is the program's own.
FORWARDED = {"exit_group", "exit", "execve", "execveat"}
CALL = re.compile(r"^(\w+)\(")
FRAME = re.compile(r"^ > (\S+?)\(")


@dataclass(frozen=True)
class OwnCall:
    name: str
    ordinal: int  # among the calls of this name of the main thread, from 1


@pytest.fixture(name="shm")
def fixture_shm():
    folder = Path(tempfile.mkdtemp(prefix="flare-faults-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module", name="life")
def fixture_life(tmp_path_factory) -> Path:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    return preload.compile_c(SOURCES / "life.c", tmp_path_factory.mktemp("life") / "life")


def traced(options: list, command: list, shm: Path) -> preload.Outcome:
    """Only the program is preloaded, not strace; the folder for segments starts empty each time."""
    for leftover in shm.iterdir():
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    env = preload.environment(preload.FORCED, shm / "made-by-flare")
    setting = f"LD_PRELOAD={env.pop('LD_PRELOAD')}"
    return preload.run(["strace", *options, "-E", setting, *command], env)


def own_calls(trace: str) -> list[OwnCall]:
    """Calls whose innermost frame outside libc and the loader is libflare's."""
    counts: Counter = Counter()
    found, current, decided = [], None, True
    for line in trace.splitlines():
        call, frame = CALL.match(line), FRAME.match(line)
        if call:
            counts[call.group(1)] += 1
            current, decided = OwnCall(call.group(1), counts[call.group(1)]), False
        elif frame and not decided:
            base = os.path.basename(frame.group(1))
            if base.startswith(("libc.so", "libc-", "ld-linux", "libpthread")):
                continue
            decided = True
            if base == "libflare.so" and current.name not in FORWARDED:
                found.append(current)
    return found


PYTHON = [sys.executable, "-I", "-S", "-c", "import os; os.fork() or os._exit(3); print(os.wait()[1])"]


@pytest.mark.parametrize("program", ["exit", "exec", "python"])
def test_any_call_of_ours_may_fail(program, life, shm, tmp_path):
    command = PYTHON if program == "python" else [life, program]
    bare = preload.run(command, preload.environment(preload.BARE))
    trace = tmp_path / "trace"
    assert traced(["-k", "-o", trace], command, shm) == bare
    calls = own_calls(trace.read_text())
    cases, failures = 0, []
    for call in calls:
        for error in ERRORS:
            inject = f"inject={call.name}:error={error}:when={call.ordinal}"
            outcome = traced(["-o", trace, "-e", f"trace={call.name}", "-e", inject], command, shm)
            assert trace.read_text().count("(INJECTED)") == 1, f"{inject} hit nothing"
            cases += 1
            if outcome != bare:
                failures.append((inject, outcome))
    print(f"{cases} cases of {len(calls)} calls:", dict(Counter(call.name for call in calls)))
    assert not failures, failures
    assert cases >= LEAST_CASES


@pytest.mark.parametrize("error", ERRORS)
def test_every_call_on_the_segment_folder_may_fail(error, life, shm, tmp_path):
    """The same error for good, not once: nothing under the folder ever works."""
    bare = preload.run([life], preload.environment(preload.BARE))
    trace = tmp_path / "trace"
    outcome = traced(["-o", trace, "-P", shm / "made-by-flare", "-e", f"inject=%file:error={error}"],
                     [life], shm)
    assert "(INJECTED)" in trace.read_text()
    assert outcome == bare
