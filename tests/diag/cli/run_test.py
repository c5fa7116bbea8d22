# SPDX-License-Identifier: Apache-2.0
"""`flare run` does not change the command it runs."""
import ctypes
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import tempfile
import threading

import pytest

from flare_command import BUILD, FLARE, check_report, flare, wait_for  # noqa: F401

LIBRARY = BUILD / "lib" / "libflare.so"


@pytest.mark.parametrize("script, status", [
    ("exit 0", 0), ("exit 3", 3), ("exit 255", 255),
    ("kill -TERM $$", 128 + 15), ("kill -KILL $$", 128 + 9), ("kill -SEGV $$", 128 + 11),
])
def test_exit_status_is_that_of_the_command(flare, script, status):
    assert flare("run", "--", "sh", "-c", script).returncode == status


def test_output_is_byte_identical(flare):
    script = ("import sys\n"
              "sys.stdout.buffer.write(bytes(range(256)) * 5000)\n"
              "sys.stderr.write('e\\n')")
    bare = subprocess.run([sys.executable, "-c", script], capture_output=True)
    run = flare("run", "-q", "--", sys.executable, "-c", script)
    assert run.stdout == bare.stdout
    assert run.stderr == bare.stderr


def test_stdin_reaches_the_command(flare):
    result = flare("run", "-q", "--", "cat", input=b"a\0b" * 100_000)
    assert result.stdout == b"a\0b" * 100_000


def test_our_lines_go_to_stderr_and_quiet_silences_them(flare):
    result = flare("run", "--", "echo", "x")
    assert result.stdout == b"x\n"
    assert result.stderr.startswith(b"flare: ") and result.stderr.count(b"\n") == 1
    assert flare("run", "--quiet", "--", "echo", "x").stderr == b""


def test_arguments_arrive_as_they_are(flare):
    words = ["--name", "--", "-q", "", "a b", "--help", "\xe9", "*"]
    result = flare("run", "-q", "--", sys.executable, "-c",
                   "import sys, json; print(json.dumps(sys.argv[1:]))", *words)
    assert json.loads(result.stdout) == words


def test_separator_may_be_left_out(flare):
    result = flare("run", "-q", "sh", "-c", "echo $0", "--name")
    assert result.stdout == b"--name\n"


def test_descriptors_signals_and_mask_are_those_we_were_given(flare, tmp_path):
    script = ("import os, json\n"
              "status = open('/proc/self/status').read().splitlines()\n"
              "lines = [l for l in status if l.startswith(('SigBlk', 'SigIgn', 'SigPnd'))]\n"
              "fds = sorted(int(f) for f in os.listdir('/proc/self/fd'))\n"
              "print(json.dumps([lines, fds]))\n")

    def ignore():
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

    with open(tmp_path / "extra", "w") as extra:
        options = {"pass_fds": [extra.fileno()], "preexec_fn": ignore}
        bare = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **options)
        run = flare("run", "-q", "--", sys.executable, "-c", script, **options)
    assert json.loads(run.stdout) == json.loads(bare.stdout)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_stay_closed(flare, tmp_path, closed):
    look = f"for fd in 0 1 2; do test -e /proc/$$/fd/$fd || echo $fd >&9; done 9>{tmp_path}/closed"
    script = f"{FLARE} run -- sh -c '{look}; exit 3' {closed}"
    assert subprocess.run(["sh", "-c", script], env=flare.env).returncode == 3
    redirected = {"<&-": "0", ">&-": "1", "2>&-": "2"}
    assert (tmp_path / "closed").read_text().split() == [redirected[c] for c in closed.split()]


def test_command_not_found(flare):
    result = flare("run", "--", "no-such-command-x")
    assert result.returncode == 127
    assert b"no-such-command-x: command not found" in result.stderr


def test_command_not_executable(flare, tmp_path):
    (tmp_path / "file").write_text("x")
    result = flare("run", "--", tmp_path / "file")
    assert result.returncode == 126
    assert b"cannot be executed" in result.stderr


@pytest.mark.parametrize("content", [b"not a library", b"", b"\x7fELF" + b"\0" * 200])
def test_broken_library_is_left_out(flare, tmp_path, content):
    broken = tmp_path / "libflare.so"
    broken.write_bytes(content)
    result = flare("run", "--", "sh", "-c", "echo out; exit 5", env={"FLARE_PRELOAD": str(broken)})
    assert result.returncode == 5
    assert result.stdout == b"out\n"
    assert b"running without FLARE: " in result.stderr and result.stderr.count(b"\n") == 1


def test_missing_library_is_left_out(flare):
    result = flare("run", "--", "sh", "-c", "exit 5", env={"FLARE_PRELOAD": "/nonexistent.so"})
    assert result.returncode == 5
    assert b"running without FLARE: FLARE_PRELOAD=/nonexistent.so" in result.stderr


def test_state_folder_that_cannot_be_written_costs_nothing(flare, tmp_path):
    (tmp_path / "blocked").write_text("")
    result = flare("run", "--state", tmp_path / "blocked" / "state", "--", "sh", "-c", "exit 5")
    assert result.returncode == 5
    assert b"cannot write" in result.stderr


def build_library(folder, name, source=""):
    (folder / f"{name}.c").write_text(source)
    path = folder / f"{name}.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, folder / f"{name}.c"], check=True)
    return path


def test_existing_preload_is_kept_and_comes_first(flare, tmp_path):
    other = build_library(tmp_path, "other", "int other_is_here;")
    script = "echo $LD_PRELOAD; grep -c other.so /proc/$$/maps"
    result = flare("run", "-q", "--", "sh", "-c", script, env={"LD_PRELOAD": str(other)})
    preload, mapped = result.stdout.decode().split()
    assert preload == f"{other}:{LIBRARY}"
    assert int(mapped) > 0


def test_library_that_crashes_is_left_out(flare, tmp_path):
    crash = build_library(tmp_path, "crash", "__attribute__((constructor)) void f(void)"
                                             "{ *(volatile int *)0 = 1; }")
    result = flare("run", "--", "sh", "-c", "exit 6", env={"FLARE_PRELOAD": str(crash)})
    assert result.returncode == 6
    assert b"died of signal 11" in result.stderr


def test_command_gets_a_job_and_a_private_folder_that_goes(flare):
    result = flare("run", "-q", "--name", "my job", "--", "sh", "-c",
                   "echo $FLARE_JOB_NAME; echo $FLARE_JOB; echo $FLARE_DIR; stat -c %a $FLARE_DIR")
    name, job, folder, mode = result.stdout.decode().splitlines()
    assert name == "my job"
    assert job.startswith("my_job-") and len(job) < 64
    assert mode == "700"
    assert not os.path.exists(folder)
    assert not any((flare.state / "flare" / "runs").iterdir())


def test_socket_that_had_to_move_goes_too(flare, tmp_path):
    """A deep state folder leaves no room for a socket's name; its stand-in must not stay behind."""
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:
        flare.env["XDG_RUNTIME_DIR"] = runtime
        state = tmp_path / ("d" * 100)
        script = "echo $FLARE_JOB; read x; exit 0"
        process = flare.start("run", "-q", "--state", state, "--", "sh", "-c", script,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        job = process.stdout.readline().decode().strip()
        folder = pathlib.Path(runtime, f"flare-{os.getuid()}")
        wait_for(lambda: list(folder.glob(f"{job}.*/engine.sock")), "the socket")
        process.stdin.close()
        assert process.wait() == 0
        assert list(folder.iterdir()) == []
        assert flare("run", "-q", "--state", state, "--", "no-such-command-x").returncode == 127
        assert list(folder.iterdir()) == []


TRAP = ("import os, signal, sys, time\n"
        "count = 0\n"
        "def caught(number, frame):\n"
        "    global count\n"
        "    count += 1\n"
        "    os.write(1, b'%d\\n' % number)\n"
        "for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,\n"
        "          signal.SIGUSR2):\n"
        "    signal.signal(n, caught)\n"
        "os.write(1, b'ready\\n')\n"
        "while not count: signal.pause()\n"
        "sys.exit(40 + count)\n")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
def test_signal_from_a_process_is_passed_on(flare, name):
    process = flare.start("run", "-q", "--", sys.executable, "-c", TRAP, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(getattr(signal, name))
    assert process.stdout.readline() == b"%d\n" % getattr(signal, name)
    assert process.wait() == 41


class Terminal:
    """A pseudo-terminal with a program in its foreground, `flare` unless another is named."""

    def __init__(self, flare, *arguments, program=FLARE):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(program, [str(program), *arguments], flare.env)
        self.output = b""

    def read_until(self, text):
        while text not in self.output:
            assert select.select([self.fd], [], [], 60)[0], self.output
            try:
                self.output += os.read(self.fd, 65536)
            except OSError:
                raise AssertionError(f"ended: {self.output}") from None

    def wait(self):
        # Drained all the while: a full terminal would stop the program.
        reader = threading.Thread(target=self._drain)
        reader.start()
        status = os.waitpid(self.pid, 0)[1]
        reader.join()
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)

    def _drain(self):
        try:
            while data := os.read(self.fd, 65536):
                self.output += data
        except OSError:
            pass


COUNT_INTERRUPTS = (
    "import os, signal, sys\n"
    "count = 0\n"
    "def caught(number, frame):\n"
    "    global count\n"
    "    count += 1\n"
    "    os.write(1, b'interrupted\\n')\n"
    "signal.signal(signal.SIGINT, caught)\n"
    "signal.signal(signal.SIGUSR1, lambda number, frame: sys.exit(40 + count))\n"
    "os.write(1, b'ready\\n')\n"
    "while True: signal.pause()\n")


def test_ctrl_c_reaches_the_command_once(flare):
    terminal = Terminal(flare, "run", "--", sys.executable, "-c", COUNT_INTERRUPTS)
    terminal.read_until(b"ready")
    os.write(terminal.fd, b"\x03")
    terminal.read_until(b"interrupted")
    # Passed on after anything that came before it.
    os.kill(terminal.pid, signal.SIGUSR1)
    assert terminal.wait() == 41


@pytest.mark.parametrize("sweep", ["group", "each process"])
def test_signal_for_everybody_reaches_the_command_once(flare, sweep):
    """As `kill -INT -PGID` sends it, and as systemd and Slurm do."""
    process = flare.start("run", "-q", "--", sys.executable, "-c", COUNT_INTERRUPTS,
                          stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout.readline() == b"ready\n"
    if sweep == "group":
        os.killpg(process.pid, signal.SIGINT)
    else:
        for pid in subprocess.check_output(["pgrep", "-g", str(process.pid)]).split():
            os.kill(int(pid), signal.SIGINT)
    assert process.stdout.readline() == b"interrupted\n"
    process.send_signal(signal.SIGUSR1)  # passed on after anything that came before it
    assert process.wait() == 41


def test_nothing_of_ours_outlives_the_run(flare):
    """Neither killed nor ended by itself does it leave a process behind."""
    for end in ("exit", "kill"):
        process = flare.start("run", "-q", "--", "cat", stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, start_new_session=True)
        wait_for(lambda: b"cat" in names_in_group(process.pid), "the command")
        assert b"flare-witness" in names_in_group(process.pid)
        if end == "kill":
            process.kill()
        process.stdin.close()
        process.wait()
        wait_for(lambda: not names_in_group(process.pid), "an empty process group")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT"])
def test_crash_of_a_thread_of_ours_does_not_touch_the_command(flare, name):
    process = flare.start("run", "--", "sh", "-c", "read x; exit 5", stdin=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    runs = flare.state / "flare" / "runs"
    wait_for(lambda: list(runs.glob("*/endpoint.json")), "the embedded engine")
    thread = max(int(t) for t in os.listdir(f"/proc/{process.pid}/task"))
    assert thread != process.pid
    tgkill = 234 if os.uname().machine == "x86_64" else 131
    ctypes.CDLL(None).syscall(tgkill, process.pid, thread, getattr(signal, name))
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.wait() == 5
    assert b"FLARE itself failed" in process.stderr.read()
    assert not list(runs.iterdir())


def names_in_group(group):
    result = subprocess.run(["pgrep", "-l", "-g", str(group)], capture_output=True)
    return [line.split(None, 1)[1] for line in result.stdout.splitlines()]


def test_ctrl_c_of_a_plain_command_is_130(flare):
    terminal = Terminal(flare, "run", "--", sys.executable, "-c",
                        "import signal; signal.signal(2, signal.SIG_DFL)\n"
                        "print('ready', flush=True)\nwhile True: signal.pause()")
    terminal.read_until(b"ready")
    os.write(terminal.fd, b"\x03")
    assert terminal.wait() == 130


def test_no_color_and_dumb_terminals_get_no_escapes(flare):
    for change in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        flare.env.update(change)
        terminal = Terminal(flare, "run", "--", "true")
        assert terminal.wait() == 0
        assert b"flare: " in terminal.output
        assert b"\x1b" not in terminal.output


def test_ctrl_z_and_fg_work_as_in_any_shell(flare):
    """A shell with job control stops the run with its command and continues both."""
    flare.env["PS1"] = "shell> "
    terminal = Terminal(flare, "--norc", "--noprofile", "-i", program="bash")
    terminal.read_until(b"shell> ")
    line = f"{FLARE} run -q -- sh -c 'echo rea\"\"dy; read x; echo got-$x'\n"
    os.write(terminal.fd, line.encode())
    terminal.read_until(b"ready\r\n")
    os.write(terminal.fd, b"\x1a")
    terminal.read_until(b"Stopped")
    os.write(terminal.fd, b"fg\nhello\n")
    terminal.read_until(b"got-hello\r\n")
    os.write(terminal.fd, b"exit 7\n")
    assert terminal.wait() == 7


def test_report_json_is_whole_and_valid_at_every_moment(flare, tmp_path):
    path = tmp_path / "report.json"
    process = flare.start("run", "-q", "--name", "n", "--report-json", str(path), "--", "cat",
                          stdin=subprocess.PIPE)
    wait_for(path.exists, "the first report")
    first = json.loads(path.read_text())
    check_report(first)
    assert first["job"]["state"] == "running" and first["job"]["exit_status"] is None
    process.stdin.close()
    while process.poll() is None:
        check_report(json.loads(path.read_text()))
    assert process.returncode == 0
    last = json.loads(path.read_text())
    check_report(last)
    assert last["job"]["state"] == "ended" and last["job"]["exit_status"] == 0
    assert last["job"]["name"] == "n" and last["findings"] == []
    assert os.listdir(tmp_path / "state") and not list(tmp_path.glob("*.tmp-*"))


def test_report_json_is_written_without_flare_too(flare, tmp_path):
    path = tmp_path / "report.json"
    flare("run", "-q", "--report-json", path, "--", "sh", "-c", "exit 4",
          env={"FLARE_PRELOAD": "/nonexistent.so"})
    report = json.loads(path.read_text())
    check_report(report)
    assert report["job"]["exit_status"] == 4


def test_report_that_cannot_be_written_does_not_stop_the_job(flare):
    result = flare("run", "--report-json", "/nonexistent/r.json", "--", "sh", "-c", "exit 4")
    assert result.returncode == 4
    assert b"cannot write the report" in result.stderr


def test_engine_that_is_not_there_does_not_stop_the_job(flare):
    result = flare("run", "--engine", "127.0.0.1:1", "--", "sh", "-c", "echo out; exit 4")
    assert result.returncode == 4
    assert result.stdout == b"out\n"


def test_two_runs_at_once_do_not_meet(flare):
    processes = [flare.start("run", "-q", "--", "sh", "-c", f"exit {n}") for n in range(4)]
    assert [p.wait() for p in processes] == [0, 1, 2, 3]
