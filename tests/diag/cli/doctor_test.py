# SPDX-License-Identifier: Apache-2.0
"""`flare doctor` says why, and what to do."""
import os
import subprocess
import sys

import pytest

from flare_command import BUILD, flare, wait_for  # noqa: F401

LIBRARY = str(BUILD / "lib" / "libflare.so")


def check(document, name):
    found = [c for c in document["checks"] if c["name"] == name]
    assert found, document
    return found[0]


def test_healthy_machine_has_no_problem(flare, tmp_path):
    document = flare.json("doctor", env={"FLARE_DIR": f"/dev/shm/flare-doctor-{os.getpid()}"})
    os.rmdir(f"/dev/shm/flare-doctor-{os.getpid()}")
    assert {c["level"] for c in document["checks"]} <= {"ok", "note", "warning"}, document
    assert check(document, "waking")["level"] == "ok"
    assert check(document, "library")["text"] == LIBRARY


@pytest.mark.parametrize("change, name, words", [
    ({"FLARE_PRELOAD": "/nonexistent.so"}, "library", "/nonexistent.so"),
    ({"FLARE_DISABLE": "1"}, "kill_switch", "FLARE_DISABLE"),
])
def test_problem_has_a_remedy_and_a_status(flare, change, name, words):
    result = flare("doctor", env=change)
    assert result.returncode == 1
    found = check(flare.json("doctor", env=change), name)
    assert found["level"] == "problem" and words in found["text"] and found["remedy"]


def test_broken_library_is_named(flare, tmp_path):
    (tmp_path / "broken.so").write_text("x")
    document = flare.json("doctor", env={"FLARE_PRELOAD": str(tmp_path / "broken.so")})
    found = check(document, "preload")
    assert found["level"] == "problem" and "broken.so" in found["text"]


def test_disable_file_is_found(flare, tmp_path):
    (tmp_path / "disable").write_text("")
    found = check(flare.json("doctor", env={"FLARE_DIR": str(tmp_path)}), "kill_switch")
    assert str(tmp_path / "disable") in found["text"]


def test_services_at_work_tell_their_version(flare, tmp_path):
    folder, state = tmp_path / "segments", tmp_path / "s"
    services = [subprocess.Popen([BUILD / "bin" / name, "--log-level", "off", "--state-dir", state, *more],
                                 env=flare.env)
                for name, more in (("flare-engine", ("--listen", "127.0.0.1:0")),
                                   ("flared", ("--segment-dir", folder)))]
    try:
        wait_for(lambda: (state / "engine.addr").exists() and (folder / "flared.lock").exists(), "start")
        document = flare.json("doctor", "--state-dir", state, env={"FLARE_DIR": str(folder)})
        version = flare.json("version")["version"]
        for name in ("engine", "daemon"):
            assert check(document, name)["level"] == "ok", document
            assert check(document, name)["text"].endswith(f", version {version}"), document
    finally:
        for service in services:
            service.terminate()
            assert service.wait(60) == 0


@pytest.fixture
def process(flare):
    """Starts a process that waits, with a changed environment; ends it after the test."""
    started = []

    def start(program=(sys.executable, "-c", "print(flush=True); input()"), **variables):
        p = subprocess.Popen(program, env={**flare.env, **variables}, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        started.append(p)
        if program[0] == sys.executable:
            p.stdout.readline()
        return p.pid

    yield start
    for p in started:
        p.stdin.close()
        p.kill()
        p.wait()


def test_process_without_preload(flare, process):
    found = flare.json("doctor", process())["checks"][-1]
    assert found["level"] == "problem" and "without libflare.so in LD_PRELOAD" in found["text"]
    assert "flare run" in found["remedy"]


def test_process_that_is_no_rank(flare, process):
    found = flare.json("doctor", process(LD_PRELOAD=LIBRARY))["checks"][-1]
    assert found["level"] == "note" and "no rank variable" in found["text"]


def test_process_that_is_disabled(flare, process):
    pid = process(LD_PRELOAD=LIBRARY, RANK="0", WORLD_SIZE="2", FLARE_DISABLE="1")
    found = flare.json("doctor", pid)["checks"][-1]
    assert found["level"] == "problem" and "FLARE_DISABLE" in found["text"]


def test_rank_that_sleeps_and_rank_that_is_traced(flare, process, tmp_path):
    rank = {"LD_PRELOAD": LIBRARY, "RANK": "1", "WORLD_SIZE": "2", "FLARE_DIR": str(tmp_path / "s")}
    found = flare.json("doctor", process(**rank))["checks"]
    assert found[1]["text"] == "rank 1 of 2 by torchrun"
    assert found[2]["level"] == "note" and "asleep" in found[2]["text"]
    pid = process(**rank, FLARE_FORCE="1")
    wait_for(lambda: "it is traced as rank 1" in flare.json("doctor", pid)["checks"][-1]["text"],
             "the segment")


def test_static_program(flare, process, tmp_path):
    (tmp_path / "s.c").write_text("#include <unistd.h>\n"
                                  "int main(void) { char c; return read(0, &c, 1); }")
    subprocess.run(["cc", "-static", "-o", tmp_path / "s", tmp_path / "s.c"], check=True)
    pid = process((str(tmp_path / "s"),), LD_PRELOAD=LIBRARY)
    wait_for(lambda: os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "s", "exec")
    found = flare.json("doctor", pid)["checks"][-1]
    assert "statically linked" in found["text"]


def test_no_such_process(flare):
    result = flare("doctor", "4194303")
    assert result.returncode == 1
    assert b"there is no process 4194303" in result.stdout
