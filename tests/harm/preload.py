# SPDX-License-Identifier: Apache-2.0
"""How the harm tests run a program: bare, preloaded and inert, or preloaded and woken.

The three environments differ in LD_PRELOAD and FLARE_FORCE only, so that a program which shows its
environment, or whose stack depends on its size, differs as little as can be for reasons not ours.
"""
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

BARE = "bare"
INERT = "inert"    # preloaded, in a rank, but nothing worth tracing happens
FORCED = "forced"  # preloaded and woken in the constructor
MODES = (INERT, FORCED)


def build_dir() -> Path:
    root = Path(__file__).resolve().parents[2]
    return Path(os.environ.get("FLARE_BUILD_DIR", root / "build"))


def library() -> Path:
    """libflare.so under test; the test fails when it was not built."""
    path = Path(os.environ.get("FLARE_LIBRARY", build_dir() / "lib" / "libflare.so"))
    assert path.exists(), f"{path} is missing: build the target flare_preload first"
    return path.resolve()


def environment(mode: str, segment_dir: Path | str | None = None, base: dict | None = None,
                with_libraries: tuple[str, ...] = ()) -> dict:
    """Environment of a rank in `mode`; `with_libraries` are preloaded too, after libflare."""
    env = dict(os.environ if base is None else base)
    for name in ("LD_PRELOAD", "FLARE_FORCE", "FLARE_DISABLE", "FLARE_DIR"):
        env.pop(name, None)
    env.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", FLARE_JOB="harm")
    if segment_dir is not None:
        env["FLARE_DIR"] = str(segment_dir)
    preloads = list(with_libraries)
    if mode != BARE:
        preloads.insert(0, str(library()))
    if preloads:
        env["LD_PRELOAD"] = ":".join(preloads)
    if mode == FORCED:
        env["FLARE_FORCE"] = "1"
    return env


@dataclass(frozen=True)
class Outcome:
    """What a program shows to the world."""
    status: int
    stdout: bytes
    stderr: bytes


def run(command: list, env: dict, timeout_s: float = 60, stdin: bytes = b"", **kwargs) -> Outcome:
    done = subprocess.run([str(word) for word in command], env=env, input=stdin,
                          capture_output=True, timeout=timeout_s, check=False, **kwargs)
    return Outcome(done.returncode, done.stdout, done.stderr)


def segments(segment_dir: Path) -> list[Path]:
    return sorted(Path(segment_dir).glob("*.seg"))


def need_root(why: str) -> None:
    if os.geteuid() != 0:
        pytest.skip(f"needs root: {why}")


def compile_c(source: Path, out: Path, flags: tuple[str, ...] = (), compiler: str = "cc") -> Path:
    """Builds one C program; a compiler that cannot (no 32-bit libc, say) skips with its words."""
    done = subprocess.run([compiler, "-O1", "-g", "-Wall", "-pthread", *flags, str(source), "-o",
                           str(out), *(() if "-static" in flags else ("-ldl",))],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"{compiler} {' '.join(flags)} cannot build here: {done.stderr.strip()[-300:]}")
    return out


def peek(segment: Path, *action: str) -> dict:
    """What a segment says; `action` may be "enable" or "disable", as the daemon would."""
    tool = build_dir() / "tests" / "segment_peek"
    done = subprocess.run([tool, segment, *action], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{segment} is not a segment: {done.stderr}"
    return json.loads(done.stdout)
