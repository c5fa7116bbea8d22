# SPDX-License-Identifier: Apache-2.0
"""Runs system programs bare and preloaded in a sandbox; prints what differed as JSON.

Started by system_programs_test.py inside namespaces of its own (mount, network, process ids). Makes
the file system read-only, hides /tmp, /run and /dev/shm behind fresh tmpfs, and runs every program as
nobody, without new privileges. Everything it needs is imported before it mounts.
"""
import ctypes
import encodings.idna  # noqa: F401: loaded before the mounts hide it
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

NOBODY = 65534
PR_SET_NO_NEW_PRIVS = 38
LIBRARY = "/run/flare-harm/libflare.so"
ARGUMENTS = (["--help"], ["--version"], [])
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def enter_sandbox(library_bytes: bytes) -> None:
    def mount(*args: str) -> None:
        subprocess.run(["mount", *args], check=True, capture_output=True)

    mount("--make-rprivate", "/")
    for where, size in (("/run", "64m"), ("/tmp", "256m"), ("/dev/shm", "1g")):
        mount("-t", "tmpfs", "-o", f"size={size},mode=1777", "tmpfs", where)
    mount("-t", "proc", "proc", "/proc")
    mount("-o", "remount,bind,ro", "/")
    os.makedirs(os.path.dirname(LIBRARY))
    with open(LIBRARY, "wb") as out:
        out.write(library_bytes)
    os.chmod(LIBRARY, 0o755)
    ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))


@dataclass
class Tally:
    tried: int = 0
    compared: int = 0
    woken: int = 0             # forced runs that left a segment: proof that the library was awake
    woken_inert: list = field(default_factory=list)  # inert runs that left one all the same
    passing: list = field(default_factory=list)      # differed once, not again in three repeats
    differences: list = field(default_factory=list)  # differed again
    lock: threading.Lock = field(default_factory=threading.Lock)


def environment(mode: str, segment_dir: str) -> dict:
    env = {"PATH": PATH, "HOME": "/nonexistent", "LANG": "C.UTF-8", "TZ": "UTC", "TERM": "dumb",
           "COLUMNS": "80", "RANK": "0", "WORLD_SIZE": "2", "FLARE_JOB": "harm",
           "FLARE_DIR": segment_dir, "PYTHONDONTWRITEBYTECODE": "1"}
    if mode != "bare":
        env["LD_PRELOAD"] = LIBRARY
    if mode == "forced":
        env["FLARE_FORCE"] = "1"
    return env


def run_once(command: list, mode: str, timeout_s: float):
    """Outcome as (status, stdout, stderr), None when it did not end; and the segments it left.

    Output goes to files, not pipes: a program that leaves a child behind must not hold us up. The
    folder has the same name in all modes, one per thread.
    """
    place = f"/tmp/harm-{threading.get_ident()}"
    segment_dir = f"/dev/shm/harm-{threading.get_ident()}"
    for folder in (place, segment_dir):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder, 0o700)
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
    as_nobody = ({"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {})
    with open(f"{place}.out", "w+b") as out, open(f"{place}.err", "w+b") as err:
        try:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                     cwd=place, env=environment(mode, segment_dir),
                                     start_new_session=True, **as_nobody)
        except OSError as error:
            return ("cannot start", str(error).encode(), b""), 0
        try:
            status = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        made = len([name for name in os.listdir(segment_dir) if name.endswith(".seg")])
        out.seek(0)
        err.seek(0)
        return (None if status is None else (status, out.read(), err.read())), made


def repeatable(program: str, timeout_s: float):
    """The first way to call the program that gives the same twice, and what it gives."""
    for arguments in ARGUMENTS:
        first, _ = run_once([program, *arguments], "bare", timeout_s)
        if first is None or first[0] == "cannot start":
            continue
        second, _ = run_once([program, *arguments], "bare", timeout_s)
        if first == second:
            return [program, *arguments], first
    return None, None


def describe(command: list, mode: str, want, got) -> dict:
    def text(outcome):
        if outcome is None:
            return "did not end"
        return {"status": outcome[0], "stdout": outcome[1][-400:].decode(errors="replace"),
                "stderr": outcome[2][-400:].decode(errors="replace")}
    return {"command": command, "mode": mode, "bare": text(want), "preloaded": text(got)}


def compare(program: str, tally: Tally, timeout_s: float) -> None:
    command, want = repeatable(program, timeout_s)
    with tally.lock:
        tally.tried += 1
    if command is None:
        return
    problems, woken, woken_inert = [], 0, 0
    for mode in ("inert", "forced"):
        got, made = run_once(command, mode, 4 * timeout_s)
        if mode == "forced":
            woken = int(made > 0)
        else:
            woken_inert = made
        if got == want:
            continue
        # A program may depend on the second it runs in: ask both ways again, in turn.
        again = [(run_once(command, "bare", 4 * timeout_s)[0],
                  run_once(command, mode, 4 * timeout_s)[0]) for _ in range(3)]
        if any(bare != want for bare, _ in again):
            return  # not repeatable after all
        confirmed = any(preloaded != want for _, preloaded in again)
        problems.append((confirmed, describe(command, mode, want, got)))
    with tally.lock:
        tally.compared += 1
        tally.woken += woken
        if woken_inert:
            tally.woken_inert.append(program)
        for confirmed, problem in problems:
            (tally.differences if confirmed else tally.passing).append(problem)


def main() -> None:
    spec = json.load(sys.stdin)
    with open(spec["library"], "rb") as library:
        library_bytes = library.read()
    if spec["isolated"]:
        enter_sandbox(library_bytes)
    else:
        global LIBRARY
        LIBRARY = spec["library"]
    tally = Tally()
    with ThreadPoolExecutor(spec["parallel"]) as pool:
        for done in [pool.submit(compare, program, tally, spec["timeout_s"])
                     for program in spec["programs"]]:
            done.result()
    json.dump({name: value for name, value in vars(tally).items() if name != "lock"}, sys.stdout)


if __name__ == "__main__":
    main()
