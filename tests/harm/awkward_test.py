# SPDX-License-Identifier: Apache-2.0
"""29 kinds of awkward process end with the same status and output with libflare as without.

One small program each (awkward/*.c), run bare, preloaded and inert, and preloaded and woken. A case
says how it is built, how it is started, and what the loader itself (not libflare) may add.
"""
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import preload
import pytest

SOURCES = Path(__file__).with_name("awkward")
# What ld.so says by itself when a preload is of another word size.
LOADER_LINE = re.compile(rb"ERROR: ld\.so: object '[^']*' from LD_PRELOAD cannot be preloaded "
                         rb"\(wrong ELF class: ELFCLASS64\): ignored\.\n")


@dataclass
class Bench:
    """Where a case runs: a folder that everybody can enter, and one for segments."""
    folder: Path
    segments: Path
    programs: dict = field(default_factory=dict)

    def build(self, name: str, *flags: str, compiler: str = "cc") -> Path:
        key = (name, compiler, *flags)
        if key not in self.programs:
            out = self.folder / f"{name}{len(self.programs)}"
            self.programs[key] = preload.compile_c(SOURCES / f"{name}.c", out, flags, compiler)
        return self.programs[key]


@pytest.fixture(scope="module", name="bench")
def fixture_bench():
    # Not pytest's tmp_path: a set-uid program's other user cannot enter that.
    folder = Path(tempfile.mkdtemp(prefix="flare-awkward-"))
    shm = Path(tempfile.mkdtemp(prefix="flare-awkward-", dir="/dev/shm"))
    folder.chmod(0o755)
    yield Bench(folder, shm)
    shutil.rmtree(folder)
    shutil.rmtree(shm)


@dataclass
class Case:
    name: str
    command: Callable[[Bench], list]
    libraries: tuple[str, ...] = ()  # preloaded as well, after libflare
    extra_env: dict = field(default_factory=dict)
    clean: Callable[[bytes], bytes] = lambda text: text
    shm_changed: bool = False  # FLARE_DIR unset; see in_mount_namespace
    before: str | None = None  # a library that has to come before libflare


def program(name: str, *arguments: str, flags: tuple = (), compiler: str = "cc"):
    return lambda bench: [bench.build(name, *flags, compiler=compiler), *arguments]


def installed(name: str) -> str:
    """Path of a shared library, looked up when a case runs; skips when it is absent."""
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                   "/usr/lib"):
        for path in (Path(folder) / name, Path(folder) / "faketime" / name):
            if path.exists():
                return str(path)
    pytest.skip(f"{name} is not installed")


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def set_uid(bench: Bench) -> list:
    preload.need_root("makes a set-uid program")
    own = bench.folder / "set_uid_hello"
    if not own.exists():
        shutil.copy(bench.build("hello"), own)
        own.chmod(0o4755)
    return [tool("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups", own]


def descriptors(bench: Bench) -> list:
    report = bench.folder / "descriptors.txt"
    return ["/bin/sh", "-c", f"{bench.build('descriptors')} {report} <&- >&- 2>&-; "
                             f"echo $?; cat {report}"]


def as_nobody(command: list) -> list:
    """Limits on locked memory do not bind root."""
    if os.geteuid() != 0:
        return command
    return [tool("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups", *command]


def in_mount_namespace(script: str, *words) -> list:
    """Only the last program is preloaded: a shell that is awake keeps its own /dev/shm busy."""
    preload.need_root("mounts")
    return [tool("unshare"), "-m", "/bin/sh", "-e", "-c",
            script + ' exec env ${LATER_PRELOAD:+"LD_PRELOAD=$LATER_PRELOAD"} "$@"', "sh", *words]


def chroot_without_proc(bench: Bench) -> list:
    preload.need_root("chroot")
    root = bench.folder / "root"
    hello = bench.build("hello")
    if not root.exists():
        listed = subprocess.run(["ldd", hello], capture_output=True, text=True, check=True).stdout
        needed = re.findall(r"(/\S+) \(0x", listed) + [str(preload.library()), str(hello)]
        for path in needed:
            copy = root / path.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(path), copy)
        (root / "dev").mkdir()
        (root / "dev/null").write_bytes(b"")
    return [tool("chroot"), root, hello]


def inferior_output(text: bytes) -> bytes:
    return re.sub(rb"process \d+", b"process N", text)


def under_gdb(bench: Bench) -> list:
    return [tool("gdb"), "-nx", "-batch", "-ex", "set style enabled off", "-ex", "break abort",
            "-ex", "run", "-ex", "info threads", "-ex", "backtrace", "-ex", "continue", "--args",
            bench.build("hello")]


def address_sanitized(bench: Bench) -> list:
    return [bench.build("allocator", "-fsanitize=address", "-static-libasan")]


def unloaded(bench: Bench) -> list:
    return [bench.build("unloaded"), preload.library()]


AS_BYTES = str(256 << 20)
CASES = [
    Case("static", program("hello", flags=("-static",))),
    Case("32-bit", program("hello", flags=("-m32",)), clean=lambda t: LOADER_LINE.sub(b"", t)),
    Case("set-uid", set_uid),
    Case("seccomp strict", program("seccomp_strict")),
    Case("descriptors 0 to 2 closed", descriptors),
    Case("closes all descriptors", program("close_all")),
    Case("vfork", program("vfork_children")),
    Case("clone3", program("clone3_children")),
    Case("fork in threads", program("fork_in_threads")),
    Case("1000 threads", program("thousand_threads")),
    Case("sigaltstack", program("alternate_stack")),
    Case("RLIMIT_AS", program("limited", "as", AS_BYTES)),
    Case("RLIMIT_NOFILE", program("limited", "nofile", "4")),
    Case("RLIMIT_STACK", program("limited", "stack", str(64 << 10))),
    Case("RLIMIT_MEMLOCK", lambda b: as_nobody([b.build("limited"), "memlock", str(64 << 10)])),
    Case("chroot without /proc", chroot_without_proc),
    Case("no /dev/shm", lambda b: in_mount_namespace(
        "mount -t tmpfs -o mode=755 t /dev; mknod /dev/null c 1 3; mount -o remount,ro /dev;",
        b.build("hello")), shm_changed=True),
    Case("read-only root", lambda b: in_mount_namespace(
        "mount --make-rprivate /; mount -o remount,bind,ro /; mount -o remount,bind,ro /dev/shm;",
        b.build("hello")), shm_changed=True),
    Case("empty environment", program("no_environment")),
    Case("argv[0] empty", program("no_arguments")),
    Case("jemalloc preloaded too", program("allocator"), libraries=("libjemalloc.so.2",)),
    Case("tcmalloc preloaded too", program("allocator"),
         libraries=("libtcmalloc_minimal.so.4",)),
    Case("faketime preloaded too", program("allocator"), libraries=("libfaketime.so.1",),
         extra_env={"FAKETIME": "2020-02-03 04:05:06"}),
    Case("gdb", under_gdb, clean=inferior_output),
    Case("strace", lambda b: [tool("strace"), "-f", "-o", "/dev/null",
                              b.build("fork_in_threads")]),
    Case("AddressSanitizer", address_sanitized),
    Case("musl", program("hello", flags=("-static",), compiler="musl-gcc")),
    Case("unloaded by dlclose", unloaded),
    *[Case(f"crashing: {how}", program("crash", how)) for how in
      ("segv", "abort", "term", "thread", "bus", "sent_bus", "exit", "quick", "raw")],
    # Beyond the 29.
    Case("no error left behind", lambda b: [b.build("fresh_state")],
         clean=lambda t: re.sub(rb"name \S+", b"", t)),
    Case("dynamic musl", program("hello", compiler="musl-gcc")),
    Case("AddressSanitizer first of the preloads", lambda b: [
        b.build("allocator", "-fsanitize=address")], before="libasan.so"),
    Case("RLIMIT_AS, hardly enough", program("limited", "as", str(16 << 20))),
    Case("RLIMIT_FSIZE", program("limited", "fsize", "1000")),
]


def run_case(case: Case, bench: Bench, mode: str) -> preload.Outcome:
    command = case.command(bench)
    libraries = tuple(installed(name) for name in case.libraries)
    env = preload.environment(mode, None if case.shm_changed else bench.segments,
                              with_libraries=libraries)
    env.update(case.extra_env)
    if case.shm_changed and "LD_PRELOAD" in env:
        env["LATER_PRELOAD"] = env.pop("LD_PRELOAD")
    if case.before is not None:
        path = subprocess.run(["cc", f"-print-file-name={case.before}"], capture_output=True,
                              text=True, check=True).stdout.strip()
        env["LD_PRELOAD"] = ":".join([path, *filter(None, [env.get("LD_PRELOAD")])])
    outcome = preload.run(command, env)
    return preload.Outcome(outcome.status, case.clean(outcome.stdout), case.clean(outcome.stderr))


@pytest.mark.parametrize("mode", preload.MODES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_awkward_process_is_unchanged(case, mode, bench):
    bare = run_case(case, bench, preload.BARE)
    assert bare == run_case(case, bench, preload.BARE), "the case itself is not repeatable"
    assert run_case(case, bench, mode) == bare


def test_forced_program_is_really_awake(bench):
    """The comparisons above mean nothing if the library slept."""
    before = set(preload.segments(bench.segments))
    preload.run([bench.build("hello")], preload.environment(preload.FORCED, bench.segments))
    made = set(preload.segments(bench.segments)) - before
    assert len(made) == 1
    facts = preload.peek(made.pop())
    assert facts["step"] == 1000
    assert facts["events"] + facts["dropped"] == 1000
