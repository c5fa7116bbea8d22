# SPDX-License-Identifier: Apache-2.0
"""Interpreters to test with, and a way to run a program in one, with and without the preload."""
import collections
import glob
import os
import re
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
sys.path.insert(0, os.path.join(ROOT, "tests/libflare"))

import segment_dump  # noqa: E402

LIBRARY = os.path.join(os.environ.get("FLARE_BUILD_DIR", os.path.join(ROOT, "build")),
                       "lib/libflare.so")
DEBIAN_PYTHON = "/usr/bin/python3"
OLDEST, NEWEST = (3, 8), (3, 14)

STATES = ["idle", "active", "missing_symbol", "unsupported", "failed"]

Result = collections.namedtuple("Result", "stdout stderr status traces")


def _answer(python, code):
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd="/")
    return done.stdout.strip() if done.returncode == 0 else None


def _version(python):
    answer = _answer(python, "import sys; print(*sys.version_info[:2])")
    return tuple(map(int, answer.split())) if answer else None


def _interpreters():
    """One of each version from 3.8 on that this machine has; ours first."""
    found = {_version(sys.executable): sys.executable}
    places = [shutil.which(f"python3.{minor}") for minor in range(OLDEST[1], NEWEST[1] + 1)]
    places += glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3"))
    for python in filter(None, places):
        version = _version(python)
        if version and OLDEST <= version <= NEWEST:
            found.setdefault(version, python)
    return list(found.values())


def _with_torch():
    return [python for python in dict.fromkeys([sys.executable, DEBIAN_PYTHON])
            if os.path.exists(python) and _answer(python, "import torch; print(1)") == "1"]


def _name(python):
    return "python" + ".".join(map(str, _version(python))) + ("-debian" if python == DEBIAN_PYTHON
                                                               else "")


def pytest_generate_tests(metafunc):
    if "any_python" in metafunc.fixturenames:
        metafunc.parametrize("any_python", _interpreters(), ids=_name)
    if "torch_python" in metafunc.fixturenames:
        pythons = _with_torch()
        assert pythons, "these tests need PyTorch"
        metafunc.parametrize("torch_python", pythons, ids=_name)


class Trace(segment_dump.Segment):
    """What one process left behind, in the questions that these tests ask."""

    def of(self, kind):
        return sorted(self.events(kind), key=lambda event: event.start)

    def count(self, kind):
        return len(self.events(kind))

    def calls(self):
        """How often each named function was called."""
        return dict(collections.Counter(event.name for event in self.events("user_call")))

    @property
    def parts(self):
        return {part: STATES[self.part_state[i]] for i, part in enumerate(segment_dump.PARTS)}

    @property
    def exception(self):
        return self.exception_type, self.exception_text


class Runner:
    """Runs Python programs in a folder of the test's own."""

    def __init__(self, folder):
        self.folder = folder
        self.waking = {"FLARE_FORCE": "1"}
        self.program = os.path.join(folder, "program.py")
        self._runs = 0

    def write(self, text, name="program.py"):
        path = os.path.join(self.folder, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def run(self, arguments, traced, api="", **variables):
        self._runs += 1
        segments = os.path.join(self.folder, f"segments{self._runs}")
        os.mkdir(segments, 0o700)
        env = {key: value for key, value in os.environ.items() if not key.startswith("FLARE_")}
        # One core each: the machine is small, and sums must not depend on the number of threads.
        env.update(OMP_NUM_THREADS="1", PYTHONHASHSEED="0", **variables)
        if traced:
            env.update(self.waking, LD_PRELOAD=LIBRARY, FLARE_DIR=segments)
            if api:
                env["FLARE_PYTHON_API"] = api
        done = subprocess.run(arguments, env=env, cwd=self.folder, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=280)
        traces = [Trace.load(path) for path in sorted(glob.glob(os.path.join(segments, "*.seg")))]
        return Result(done.stdout, done.stderr, done.returncode, traces)

    def compare(self, arguments, api="", status=0, **variables):
        """Runs it bare and traced; all that a user sees must be equal. Returns the one trace."""
        bare = self.run(arguments, False, **variables)
        assert bare.status == status, bare.stderr
        traced = self.run(arguments, True, api, **variables)
        assert _seen(traced) == _seen(bare)
        assert len(traced.traces) == 1, [t.pid for t in traced.traces]
        return traced.traces[0]

    def compare_program(self, python, text, api="", status=0, **variables):
        return self.compare([python, self.write(text)], api, status, **variables)


def _seen(result):
    """Output and status; addresses, and time and pid of log lines, differ between any two runs."""
    hide = lambda text: re.sub(r"^(W\d{4}|USDT:\S+) \S+ \S+ |0x[0-9a-f]+", "", text, flags=re.MULTILINE)
    return hide(result.stdout), hide(result.stderr), result.status


@pytest.fixture
def runner(tmp_path):
    assert os.path.exists(LIBRARY), f"{LIBRARY} is not built"
    return Runner(str(tmp_path))
