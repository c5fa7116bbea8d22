# SPDX-License-Identifier: Apache-2.0
"""CPython's own tests of processes, signals, threads and memory pass as they do without libflare.

The interpreter must carry the `test` package (Debian's does not; pyenv's do). Name another one by
FLARE_WITNESS_PYTHON. Modules run one by one, bare and woken at the same time on two cores. A test
that differs is asked again alone, both ways, because some depend on the load of the machine.
"""
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import preload
import pytest

# test_socket is left out: it hangs where there is no network.
MODULES = ("test_subprocess", "test_signal", "test_fork1", "test_threading", "test_ctypes", "test_gc",
           "test_audit", "test_faulthandler", "test_mmap", "test_os", "test_posix", "test_atexit",
           "test_wait4", "test_sys", "test_thread")
LEAST_TESTS = 1500


def carries_tests(python: str) -> bool:
    return subprocess.run([python, "-c", "import test.libregrtest"], capture_output=True,
                          check=False).returncode == 0


@pytest.fixture(scope="module", name="python")
def fixture_python() -> str:
    """An interpreter that is not a virtual environment's: some tests mind."""
    named = os.environ.get("FLARE_WITNESS_PYTHON")
    pyenv = sorted(Path.home().glob(".pyenv/versions/3.11*/bin/python3")) + \
        sorted(Path.home().glob(".pyenv/versions/3.1[023]*/bin/python3"))
    candidates = [named] if named else [f"{sys.base_prefix}/bin/python3", *map(str, pyenv)]
    for python in candidates:
        if carries_tests(python):
            return python
    pytest.skip("no interpreter with the `test` package: set FLARE_WITNESS_PYTHON")


def module_outcomes(python: str, module: str, mode: str, place: Path) -> dict:
    """Test id -> passed, failed, error or skipped, and the module's own exit status."""
    folder = place / f"{mode}-{module}"
    shm = Path("/dev/shm") / f"flare-harm-{os.getpid()}-{mode}-{module}"
    for path in (folder, shm):
        path.mkdir(mode=0o700, exist_ok=True, parents=True)
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [python, "-m", "test", "--junit-xml", str(report), "--tempdir", str(folder)]
    env = preload.environment(mode, segment_dir=shm)
    try:
        done = subprocess.run([*command, module], env=env, cwd=folder, capture_output=True,
                              timeout=600, check=False, stdin=subprocess.DEVNULL)
        made = len(preload.segments(shm))
    finally:
        subprocess.run(["rm", "-rf", str(shm)], check=False)
    outcomes = {"exit status": done.returncode, "woken": made > 0}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        kind = next((k for k in ("error", "failure", "skipped") if k in kinds), "passed")
        if case.get("status") == "notrun" or case.get("result") == "skipped":
            kind = "skipped"
        outcomes[case.get("name")] = kind
    return outcomes


def differing(bare: dict, woken: dict) -> dict:
    names = (set(bare) | set(woken)) - {"woken"}
    return {name: (bare.get(name), woken.get(name)) for name in names
            if bare.get(name) != woken.get(name)}


def test_cpython_passes_the_same_tests(python, tmp_path):
    with ThreadPoolExecutor(1) as bare_side, ThreadPoolExecutor(1) as woken_side:
        bare_runs = [bare_side.submit(module_outcomes, python, module, preload.BARE, tmp_path)
                     for module in MODULES]
        woken_runs = [woken_side.submit(module_outcomes, python, module, preload.FORCED, tmp_path)
                      for module in MODULES]
        bare = {module: future.result() for module, future in zip(MODULES, bare_runs)}
        woken = {module: future.result() for module, future in zip(MODULES, woken_runs)}
    confirmed = {}
    for module in MODULES:
        assert woken[module]["woken"], f"{module}: the library was not awake"
        if differing(bare[module], woken[module]):
            again = [(module_outcomes(python, module, preload.BARE, tmp_path),
                      module_outcomes(python, module, preload.FORCED, tmp_path)) for _ in range(2)]
            persisting = differing(bare[module], woken[module])
            for bare_again, woken_again in again:
                persisting = {name: pair for name, pair in persisting.items()
                              if name in differing(bare_again, woken_again)}
            if persisting:
                confirmed[module] = persisting
    count = sum(len(outcomes) - 2 for outcomes in bare.values())
    passed = sum(list(outcomes.values()).count("passed") for outcomes in bare.values())
    print(f"{count} tests, {passed} passed, in {len(MODULES)} modules of {python}")
    assert not confirmed, confirmed
    assert passed >= LEAST_TESTS
