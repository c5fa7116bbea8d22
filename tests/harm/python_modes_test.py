# SPDX-License-Identifier: Apache-2.0
"""Python behaves the same in all its modes: allocators, development mode, profilers, tracers, forks.

The Python side of libflare adds an audit hook before the interpreter is configured, so whatever changes
the configuration afterwards is tried here, on every interpreter this machine has.
"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import preload
import pytest

SCRIPT = """
import sys, os, gc, threading
def work(n):
    return [str(i) for i in range(n)]
gc.collect()
pid = os.fork() if hasattr(os, "fork") else 0
if pid == 0:
    gc.collect()
    os._exit(3)
thread = threading.Thread(target=work, args=(100,))
thread.start()
thread.join()
print(os.waitpid(pid, 0)[1], len(work(1000)), sys.gettrace() is None, sys.getprofile() is None)
"""
TRACED = """
import sys
calls = []
sys.setprofile(lambda frame, event, argument: calls.append((event, frame.f_code.co_name)))
def inner(): return 1
inner(); inner()
sys.setprofile(None)
print(calls)
lines = []
def trace(frame, event, argument):
    lines.append((event, frame.f_lineno)); return trace
sys.settrace(trace)
inner()
sys.settrace(None)
print(lines)
"""
AUDITED = """
import sys
seen = []
sys.addaudithook(lambda event, arguments: seen.append(event) if event.startswith("open") else None)
open("/dev/null").close()
print(seen)
print(sys.flags, sys.argv, len(sys.modules) > 10)
"""
COLLECTED = """
import gc
print(len(gc.callbacks), gc.isenabled(), gc.get_threshold())
gc.callbacks.append(lambda phase, info: print(phase, info["generation"]))
gc.collect()
gc.callbacks.clear()
gc.collect(0)
"""
POOLS = """
import multiprocessing
def square(x): return x * x
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(square, range(5)))
"""
UNCAUGHT = "def inner(): raise KeyError('gone')\ninner()\n"
LEAVES = "import sys, atexit; atexit.register(print, 'last'); sys.exit('words')\n"

# name -> (options, environment, script); the script is a file, so that all modes can start it.
MODES = {
    "plain": ([], {}, SCRIPT),
    "development": (["-X", "dev", "-W", "ignore"], {}, SCRIPT),
    "development, one word": (["-Xdev", "-W", "ignore"], {}, SCRIPT),
    "development by environment": (["-W", "ignore"], {"PYTHONDEVMODE": "1"}, SCRIPT),
    "allocator debug": ([], {"PYTHONMALLOC": "debug"}, SCRIPT),
    "allocator malloc_debug": ([], {"PYTHONMALLOC": "malloc_debug"}, SCRIPT),
    "allocator malloc": ([], {"PYTHONMALLOC": "malloc"}, SCRIPT),
    "allocator pymalloc_debug": ([], {"PYTHONMALLOC": "pymalloc_debug"}, SCRIPT),
    "isolated": (["-I"], {}, SCRIPT),
    "environment ignored": (["-E"], {"PYTHONMALLOC": "debug"}, SCRIPT),
    "no site": (["-S"], {}, SCRIPT),
    "optimised": (["-OO"], {}, SCRIPT),
    "traced memory": (["-X", "tracemalloc=5"], {}, SCRIPT),
    "fault handler": (["-X", "faulthandler"], {}, SCRIPT),
    "utf-8": (["-X", "utf8"], {"LC_ALL": "C"}, SCRIPT),
    "hash seed": ([], {"PYTHONHASHSEED": "0"}, "print(hash('flare'))"),
    "unbuffered": (["-u"], {}, SCRIPT),
    "profile and trace functions": ([], {}, TRACED),
    "audit hooks": ([], {}, AUDITED),
    "collector": ([], {}, COLLECTED),
    "process pools": (["-W", "ignore"], {}, POOLS),
    "uncaught exception": ([], {}, UNCAUGHT),
    "exit with words": ([], {}, LEAVES),
}


def interpreters() -> list[str]:
    found = {sys.executable: None}
    for path in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3")):
        if int(path.parts[-3].split(".")[1]) >= 8:
            found[str(path)] = None
    if Path("/usr/bin/python3").exists():
        found["/usr/bin/python3"] = None
    return list(found)


def short(python: str) -> str:
    done = subprocess.run([python, "-c", "import platform; print(platform.python_version())"],
                          capture_output=True, text=True, check=True)
    return f"{done.stdout.strip()} {'system' if python.startswith('/usr') else ''}".strip()


@pytest.fixture(name="shm")
def fixture_shm():
    folder = Path(tempfile.mkdtemp(prefix="flare-python-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("mode", preload.MODES)
@pytest.mark.parametrize("python", interpreters(), ids=short)
def test_python_is_unchanged(python, mode, shm, tmp_path):
    differences = {}
    for name, (options, extra, script) in MODES.items():
        path = tmp_path / "script.py"
        path.write_text(script)
        outcomes = []
        for how in (preload.BARE, mode):
            env = dict(preload.environment(how, shm), **extra)
            outcomes.append(preload.run([python, *options, path, "argument"], env))
            shutil.rmtree(shm)
            shm.mkdir(mode=0o700)
        if outcomes[0] != outcomes[1]:
            differences[name] = outcomes
    assert not differences, "\n".join(f"{name}:\n  bare {bare}\n  {mode} {preloaded}"
                                      for name, (bare, preloaded) in differences.items())
