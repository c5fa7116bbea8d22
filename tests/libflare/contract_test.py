# SPDX-License-Identifier: Apache-2.0
"""What libflare.so promises about itself as a binary: it needs libc only, shows only what it
intercepts, and loads on images older than the one it was built on."""
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FLARE_BUILD_DIR", ROOT / "build"))
LIBRARY = BUILD / "lib" / "libflare.so"
NEWEST_GLIBC = (2, 28)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def dynamic_symbols():
    """(type, name, version) of each dynamic symbol."""
    for line in run("nm", "-D", str(LIBRARY)).splitlines():
        match = re.match(r"[0-9a-f ]*\s([A-Za-z])\s(\S+)$", line)
        name, _, version = match.group(2).partition("@")
        yield match.group(1), name, version.lstrip("@")


def map_symbols():
    text = (ROOT / "libflare" / "libflare.map").read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    exported = text.split("global:")[1].split("local:")[0]
    return {name.strip() for name in exported.split(";") if name.strip()}


def test_needs_libc_only():
    needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", str(LIBRARY)))
    assert needed == ["libc.so.6"]


def test_shows_exactly_what_the_map_lists():
    shown = {name for kind, name, _ in dynamic_symbols() if kind in "TDBRVW"}
    assert shown == map_symbols()


def test_no_symbol_newer_than_the_oldest_glibc_served():
    newest = {}
    for _, name, version in dynamic_symbols():
        match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
        if match and (int(match.group(1)), int(match.group(2))) > NEWEST_GLIBC:
            newest[name] = version
    assert newest == {}


def test_functions_that_left_libdl_are_weak():
    weak = {name for kind, name, _ in dynamic_symbols() if kind in "wv"}
    asked = {name for kind, name, _ in dynamic_symbols() if kind in "Uwv"}
    moved = {"dlsym", "dlopen", "dladdr", "dlvsym", "dlclose", "dlerror", "dladdr1"}
    assert asked & moved
    assert asked & moved <= weak


def test_no_thread_library_is_asked_for():
    assert not [name for kind, name, _ in dynamic_symbols() if name.startswith("pthread_")]


def test_thread_local_storage_is_small():
    match = re.search(r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)",
                      run("readelf", "-lW", str(LIBRARY)), re.M)
    assert match, "no thread-local storage at all: the recorder must have some"
    assert int(match.group(1), 16) <= 256


def test_no_text_relocations_and_lazy_binding():
    dynamic = run("readelf", "-dW", str(LIBRARY))
    assert "TEXTREL" not in dynamic
    assert "BIND_NOW" not in dynamic and not re.search(r"FLAGS_1.*\bNOW\b", dynamic)
    assert "NODELETE" in dynamic


def test_no_destructors_run_at_exit():
    undefined = {name for _, name, _ in dynamic_symbols()}
    assert not undefined & {"__cxa_atexit", "__cxa_thread_atexit_impl", "atexit"}


def test_file_is_small(tmp_path):
    stripped = tmp_path / "libflare.so"
    shutil.copy(LIBRARY, stripped)
    run("strip", str(stripped))
    assert stripped.stat().st_size < 1_000_000


def test_hot_path_takes_no_lock_and_calls_only_the_clock():
    code = run("objdump", "-dC", "--no-show-raw-insn", str(LIBRARY))
    for function in ("BeginCall", "EndCall"):
        match = re.search(rf"^[0-9a-f]+ <flare::{function}\([^\n]*>:\n(.*?)\n\n", code,
                          re.S | re.M)
        assert match, function
        assert not re.search(r"\block\b|\bxchg\b.*\(", match.group(1)), function
        called = set(re.findall(r"\bcall\s+\S+ <([^>]*)>", match.group(1)))
        allowed = re.compile(r"clock_gettime@plt|flare::\(anonymous namespace\)::ClaimSlot.*")
        assert not [name for name in called if not allowed.match(name)], called


def test_says_its_version():
    code = ("import ctypes, sys; f = ctypes.CDLL(sys.argv[1]).flare_version; "
            "f.restype = ctypes.c_char_p; print(f().decode())")
    version = re.search(r"project\(flare VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert run("python3", "-c", code, str(LIBRARY)).strip() == version.group(1)
