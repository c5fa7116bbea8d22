# SPDX-License-Identifier: Apache-2.0
"""Which processes wake and what they leave behind, on small programs without a framework."""
import os
import pathlib
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from segment_dump import Segment  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FLARE_BUILD_DIR", ROOT / "build"))
LIBRARY = BUILD / "lib" / "libflare.so"
RUNNING, EXITED, REPLACED = 1, 2, 3
RANK = {"RANK": "0", "WORLD_SIZE": "1"}


@pytest.fixture
def preloaded(tmp_path):
    """Runs a command under the preload; gives its result and the segments by pid."""
    def start(command, **environment):
        env = {key: value for key, value in os.environ.items() if not key.startswith("FLARE_")}
        env.update(LD_PRELOAD=str(LIBRARY), FLARE_DIR=str(tmp_path / "segments"), **environment)
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        segments = {}
        for path in (tmp_path / "segments").glob("*.seg"):
            segment = Segment.load(path)
            segments[segment.pid] = segment
        return done, segments
    return start


def forced(preloaded, command, **environment):
    done, segments = preloaded(command, FLARE_FORCE="1", FLARE_JOB="job", **environment)
    assert done.stderr == ""
    assert len(segments) == 1
    return done, next(iter(segments.values()))


def test_only_ranks_wake(preloaded):
    done, segments = preloaded(["/bin/sh", "-c", "/bin/true; echo hi"])
    assert (done.stdout, done.stderr, done.returncode, segments) == ("hi\n", "", 0, {})


def test_a_rank_without_anything_to_trace_stays_inert(preloaded):
    done, segments = preloaded(["/bin/sh", "-c", "/bin/true; echo hi"], **RANK)
    assert (done.stdout, done.stderr, segments) == ("hi\n", "", {})


def test_disable_wins(preloaded):
    _, segments = preloaded(["/bin/true"], FLARE_FORCE="1", FLARE_DISABLE="1")
    assert segments == {}


def test_header_names_the_process(preloaded):
    done, segment = forced(preloaded, ["/bin/sh", "-c", "echo $$"], FLARE_JOB_NAME="my job",
                           RANK="3", WORLD_SIZE="5", LOCAL_RANK="1")
    assert segment.pid == int(done.stdout)
    assert (segment.rank, segment.world_size, segment.local_rank) == (3, 5, 1)
    assert (segment.job, segment.job_name) == ("job", "my job")
    assert segment.node == os.uname().nodename
    assert segment.ready == 1 and segment.enabled == 1
    assert segment.pid_namespace == os.stat("/proc/self/ns/pid").st_ino


@pytest.mark.parametrize("code, status", [
    ("exit 3", 3),                       # exit()
    ("import os; os._exit(5)", 5),       # _exit()
    ("raise SystemExit(7)", 7),
])
def test_exit_status_is_kept(preloaded, code, status):
    command = ["/bin/sh", "-c", code] if code.startswith("exit") else [sys.executable, "-c", code]
    done, segment = forced(preloaded, command)
    assert done.returncode == status
    assert (segment.phase, segment.exit_code) == (EXITED, status)


def test_killed_process_was_still_running(preloaded):
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    done, segment = forced(preloaded, [sys.executable, "-c", code])
    assert done.returncode == -signal.SIGKILL
    assert segment.phase == RUNNING


def test_children_end_without_marking_the_parent(preloaded):
    code = ("import os, subprocess\n"
            "pid = os.fork()\n"
            "if pid == 0: os._exit(9)\n"
            "os.waitpid(pid, 0)\n"
            "try: subprocess.run(['/no/such/program'])\n"
            "except FileNotFoundError: pass\n"
            "subprocess.run(['/bin/true'], check=True)\n"
            "os.kill(os.getpid(), 9)\n")
    _, segment = forced(preloaded, [sys.executable, "-c", code])
    assert segment.phase == RUNNING


def test_failed_exec_leaves_it_running(preloaded):
    code = ("import os\n"
            "try: os.execv('/no/such/program', ['x'])\n"
            "except FileNotFoundError: pass\n"
            "os.kill(os.getpid(), 9)\n")
    _, segment = forced(preloaded, [sys.executable, "-c", code])
    assert segment.phase == RUNNING


def test_exec_marks_the_process_as_replaced(preloaded):
    code = "import os; os.execve('/bin/true', ['true'], {})"
    _, segment = forced(preloaded, [sys.executable, "-c", code])
    assert segment.phase == REPLACED


def test_program_started_by_a_rank_is_not_that_rank_again(preloaded):
    # Both are forced; the child finds that an ancestor is this rank already.
    done, segment = forced(preloaded, ["/bin/sh", "-c", "/bin/sh -c '/bin/true; echo $PPID'; :"])
    assert segment.pid == int(done.stdout)


def test_steps_by_hand(preloaded):
    code = ("import ctypes\n"
            "for _ in range(5): ctypes.CDLL(None).flare_step()\n")
    _, segment = forced(preloaded, [sys.executable, "-c", code])
    assert segment.step == 5
    assert [e.sequence for e in segment.events("step")] == [0, 1, 2, 3, 4]


def test_file_in_the_folder_switches_off(preloaded, tmp_path):
    (tmp_path / "segments").mkdir(mode=0o700)
    (tmp_path / "segments" / "disable").touch()
    done, segments = preloaded(["/bin/sh", "-c", "echo hi"], FLARE_FORCE="1")
    assert (done.stdout, done.stderr, segments) == ("hi\n", "", {})


def test_descriptors_of_the_program_do_not_move(preloaded):
    code = "import os; print(os.open('/dev/null', os.O_RDONLY))"
    bare = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    done, _ = forced(preloaded, [sys.executable, "-c", code])
    assert done.stdout == bare.stdout


def test_log_goes_to_its_file_only(preloaded, tmp_path):
    log = tmp_path / "flare.log"
    done, segment = forced(preloaded, ["/bin/true"], FLARE_LOG=str(log))
    assert done.stdout == "" and f"flare[{segment.pid}]: awake" in log.read_text()
