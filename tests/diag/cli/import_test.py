# SPDX-License-Identifier: Apache-2.0
"""`flare diagnose` and `flare import`: files of other tools in, reports out, whatever they are."""
import json
import os
import signal
import sqlite3
import subprocess

import pytest

import kineto_file
from flare_command import FLARE, check_report, flare, wait_for  # noqa: F401


@pytest.fixture
def ranks(tmp_path):
    """A folder with the profiles of two ranks."""
    for rank in (0, 1):
        kineto_file.write(tmp_path / "job" / f"rank{rank}.json.gz", rank=rank)
    return tmp_path / "job"


def documents(text):
    """JSON documents that follow each other."""
    decoder, text, out = json.JSONDecoder(), text.decode().strip(), []
    while text:
        document, end = decoder.raw_decode(text)
        out.append(document)
        text = text[end:].lstrip()
    return out


def test_a_folder_is_diagnosed_without_a_trace_of_it(flare, ranks):
    result = flare("diagnose", ranks)
    assert result.returncode == 0, result.stderr
    text = result.stdout.decode()
    assert "job imported, 2 ranks" in text
    assert "GPU busy" in text and "40.0 %" not in result.stderr.decode()
    assert not flare.state.exists()


def test_json_is_that_of_reports(flare, ranks):
    report = flare.json("diagnose", ranks)
    check_report(report)
    assert report["job"]["state"] == "imported"
    assert report["job"]["world_size"] == 2
    assert [p["rank"] for p in report["profiles"]] == [0, 1]
    # 4 ms of each 10 ms, from the first kernel to the last: 12 of 24 ms.
    assert report["profiles"][0]["busy_share"] == pytest.approx(0.5)
    assert report["profiles"][0]["idle_share"] == pytest.approx(0.5)
    assert report["profiles"][0]["devices"] == ["NVIDIA A100-SXM4-80GB"]


def test_import_is_kept_and_shown_again(flare, ranks):
    result = flare("import", ranks, "--name", "before")
    assert result.returncode == 0, result.stderr
    job, = flare.json("jobs")["jobs"]
    assert (job["name"], job["state"], job["imported"] is not None) == ("before", "imported", True)
    stored = flare.json("report", "before")
    check_report(stored)
    direct = flare.json("diagnose", ranks)
    for part in ("findings", "ranks", "profiles", "notes"):
        assert stored[part] == direct[part], part
    assert b"GPU busy" in flare("report").stdout
    watched = flare("watch", "before")  # over at once: nothing will change
    assert watched.returncode == 0 and b"imported" in watched.stdout


def test_the_newest_import_is_the_newest_job_however_old_its_data(flare, ranks, tmp_path):
    flare("import", ranks, "--name", "first")
    old = kineto_file.write(tmp_path / "old.json", base_ns=1_500_000_000_000_000_000)
    flare("import", old)
    assert flare.json("report")["job"]["name"] == "old"
    assert [j["name"] for j in flare.json("jobs")["jobs"]] == ["old", "first"]


def test_content_tells_the_kind_and_not_the_name(flare, tmp_path):
    path = kineto_file.write(tmp_path / "trace.png", world_size=1)
    assert flare("diagnose", path).returncode == 0
    wrong = tmp_path / "trace.json.gz"
    wrong.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(1000))
    result = flare("diagnose", wrong)
    assert result.returncode == 1
    assert b"binary data of another kind" in result.stderr
    assert b"kineto" in result.stderr


def test_rank_twice_is_two_reports_and_said(flare, ranks):
    kineto_file.write(ranks / "rank1-again.json", rank=1, slow=1.5)
    result = flare("diagnose", ranks, "--json")
    first, second = documents(result.stdout)
    assert [r["rank"] for r in first["ranks"]] == [0, 1]
    assert [r["rank"] for r in second["ranks"]] == [1]
    for report in (first, second):
        check_report(report)
        assert any("rank 1 comes twice" in note for note in report["notes"])
    assert first["job"]["name"] != second["job"]["name"]


def test_two_jobs_in_one_folder_are_both_imported(flare, tmp_path):
    for world_size in (2, 4):
        kineto_file.write(tmp_path / "mixed" / f"of{world_size}.json", world_size=world_size)
    assert flare("import", tmp_path / "mixed").returncode == 0
    jobs = flare.json("jobs")["jobs"]
    assert sorted(j["world_size"] for j in jobs) == [2, 4]
    for job in jobs:
        report = flare.json("report", job["id"])
        assert any("2 jobs" in note for note in report["notes"])


def test_same_file_twice_is_read_once(flare, ranks):
    (ranks / "copy.json.gz").write_bytes((ranks / "rank0.json.gz").read_bytes())
    (ranks / "link.json.gz").symlink_to(ranks / "rank0.json.gz")
    report, = documents(flare("diagnose", ranks, ranks, "--json").stdout)
    assert [r["rank"] for r in report["ranks"]] == [0, 1]
    assert any("copy" in note for note in report["notes"])


def test_unknown_files_in_a_folder_are_mentioned_but_named_ones_are_errors(flare, ranks):
    (ranks / "README").write_text("read me")
    (ranks / "weights.bin").write_bytes(os.urandom(5000))
    report = flare.json("diagnose", ranks)
    assert "2 files of no known kind left out: README, weights.bin" in report["notes"]
    result = flare("diagnose", ranks, ranks / "README", "--json")
    assert result.returncode == 1
    assert b"README: text in which" in result.stderr
    assert len(documents(result.stdout)) == 1  # what could be read is told all the same


def test_import_with_an_error_stores_nothing(flare, ranks):
    result = flare("import", ranks, ranks / "nothing-here")
    assert result.returncode == 1
    assert b"nothing-here: No such file" in result.stderr
    assert not flare.state.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(flare, ranks):
    (ranks / "rank0.json.gz").chmod(0)
    result = flare("diagnose", ranks / "rank0.json.gz")
    assert result.returncode == 1 and b"Permission denied" in result.stderr


def test_empty_folder_and_empty_file(flare, tmp_path):
    (tmp_path / "empty").mkdir()
    result = flare("diagnose", tmp_path / "empty")
    assert result.returncode == 1 and b"nothing there that can be imported" in result.stderr
    (tmp_path / "empty" / "file").touch()
    assert b"file" in flare("diagnose", tmp_path / "empty").stderr
    assert b"it is empty" in flare("diagnose", tmp_path / "empty" / "file").stderr


def test_loops_fifos_and_devices_do_not_hold_it_up(flare, ranks):
    (ranks / "loop").symlink_to(ranks)
    os.mkfifo(ranks / "fifo")
    report = flare.json("diagnose", ranks)
    assert len(report["ranks"]) == 2
    assert "a special file left out" in report["notes"]
    for path in (ranks / "fifo", "/dev/zero"):
        result = flare("diagnose", path)
        assert result.returncode == 1 and b"not a regular file" in result.stderr


@pytest.mark.parametrize("content", [
    os.urandom(100_000), b"\x1f\x8b" + os.urandom(1000), b"\x28\xb5\x2f\xfd" + os.urandom(1000),
    b"\xfd7zXZ\0" + os.urandom(1000), b"{" * 100_000, b'{"traceEvents": [' * 1000, b"\0" * 100_000,
    b"\xff\xfe" * 5000, b"\x80\x02}q\x00." * 10, b'{"traceEvents": [{"ph": "X", "ts": 1e999',
], ids=range(10))
def test_rubbish_is_an_error_or_a_degradation_in_words(flare, tmp_path, content):
    path = tmp_path / "rubbish"
    path.write_bytes(content)
    result = flare("diagnose", path)
    assert result.returncode in (0, 1), result.stderr
    assert result.stdout or result.stderr
    assert b"\x1b" not in result.stdout + result.stderr


def test_cut_off_file_is_used_up_to_the_cut(flare, tmp_path):
    path = kineto_file.write(tmp_path / "whole.json.gz", steps=2000, world_size=1)
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(path.read_bytes()[:path.stat().st_size // 2])
    report = flare.json("diagnose", cut)
    assert 100 < report["profiles"][0]["steps"] < 2000
    assert any("cut" in note for note in report["notes"])


def test_wrong_kind_is_a_usage_error_and_the_wrong_one_an_error(flare, ranks):
    result = flare("diagnose", ranks, "--as", "kinteo")
    assert result.returncode == 2 and b"kineto" in result.stderr
    text = ranks / "words.txt"
    text.write_text("words")
    assert flare("diagnose", text, "--as", "kineto").returncode == 1
    assert flare("diagnose", ranks / "rank0.json.gz", "--as", "kineto").returncode == 0


def test_names_of_files_cannot_steer_the_terminal(flare, tmp_path):
    evil = kineto_file.write(tmp_path / "\x1b[2J\nevil" / "a\x1b]0;b\x07.json")
    kineto_file.write(evil.parent / "rubbish\x1b[1m", rank=1).write_text("x")
    for arguments in (["diagnose", evil.parent], ["diagnose", evil.parent / "rubbish\x1b[1m"],
                      ["import", evil], ["jobs"], ["report"]):
        result = flare(*arguments)
        assert b"\x1b" not in result.stdout + result.stderr
        assert b"\x07" not in result.stdout + result.stderr


def test_fail_on_is_quiet_about_a_healthy_job(flare, ranks):
    assert flare("diagnose", ranks, "--fail-on", "any").returncode == 0
    assert flare("import", ranks, "--fail-on", "any").returncode == 0


def test_import_beside_an_engine(flare, ranks):
    """An engine that owns the folder goes on, lists the import and does not call it lost."""
    state = flare.state / "flare"
    engine = subprocess.Popen([FLARE.parent / "flare-engine", "--listen", "127.0.0.1:0",
                               "--state-dir", state], env=flare.env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for((state / "engine.addr").exists, "the engine")
        assert flare("import", ranks, "--name", "beside").returncode == 0
        address = (state / "engine.addr").read_text().strip()
        jobs = flare.json("jobs", "--engine", address)["jobs"]
        assert [(j["name"], j["state"]) for j in jobs] == [("beside", "imported")]
        assert len(flare.json("report", "beside", "--engine", address)["profiles"]) == 2
    finally:
        engine.terminate()
        engine.wait()
    engine = subprocess.Popen([FLARE.parent / "flare-engine", "--listen", "127.0.0.1:0",
                               "--state-dir", state], env=flare.env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for((state / "engine.addr").exists, "the next engine")
        assert flare.json("report", "beside")["job"]["state"] == "imported"  # not adopted
    finally:
        engine.terminate()
        engine.wait()


def test_store_that_cannot_be_written_is_left_as_it_was(flare, ranks):
    state = flare.state / "flare"
    state.mkdir(parents=True)
    (state / "flare.db").write_text("this is no database")
    result = flare("import", ranks)
    assert result.returncode == 1 and b"not a FLARE database" in result.stderr
    assert (state / "flare.db").read_text() == "this is no database"


def test_interrupt_leaves_nothing(flare, tmp_path):
    folder, temporary = tmp_path / "large", tmp_path / "tmp"
    temporary.mkdir()
    line = json.dumps(kineto_file.trace(steps=20_000, world_size=1)).encode()
    folder.mkdir()
    for i in range(20):
        (folder / f"rank{i}.json").write_bytes(line)
    process = flare.start("import", folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={"TMPDIR": str(temporary)})
    try:
        process.wait(0.1)
        pytest.skip("too fast to be interrupted")
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    # Before the handler is there, the signal itself ends it.
    assert process.returncode in (130, -signal.SIGINT)
    assert out == b""
    assert not flare.state.exists()
    assert list(temporary.iterdir()) == []


def test_steps_of_a_long_import_are_all_kept(flare, tmp_path):
    path = kineto_file.write(tmp_path / "long.json.gz", steps=3000, world_size=1)
    assert flare("import", path).returncode == 0
    with sqlite3.connect(f"file:{flare.state}/flare/flare.db?mode=ro", uri=True) as database:
        assert database.execute("SELECT count(*) FROM steps").fetchone() == (3000,)
    assert flare.json("report")["profiles"][0]["steps"] == 3000
