# SPDX-License-Identifier: Apache-2.0
"""The three programs take the same options in the same spelling; older spellings still work."""
import subprocess

import pytest

from flare_command import BUILD, flare  # noqa: F401


def run(flare, program, *arguments):
    return subprocess.run([BUILD / "bin" / program, *map(str, arguments)], env=flare.env, text=True,
                          capture_output=True, timeout=60)


def help_of(flare, *words):
    done = run(flare, *words, "--help")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", [("flare", "run"), ("flare", "jobs"), ("flare", "report"),
                                   ("flare", "watch"), ("flare", "doctor"), ("flare", "switch"),
                                   ("flared",), ("flare-engine",)])
def test_help_names_the_state_folder_alike(flare, words):
    text = help_of(flare, *words)
    assert "--state-dir" in text
    assert str(flare.state / "flare") in text, "its default"


@pytest.mark.parametrize("spelling", ["--state-dir", "--state"])
def test_flare_takes_both_spellings_of_the_state_folder(flare, tmp_path, spelling):
    done = flare("run", "-q", spelling, tmp_path / "chosen", "--", "true")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "chosen").is_dir()
    assert flare("jobs", spelling, tmp_path / "chosen").returncode == 0


def cannot_start(flare, tmp_path, program, *arguments):
    """Starts a service that understands its options but cannot serve: what it says, and its status."""
    (tmp_path / "file").write_text("")
    where = {"flared": ("--segment-dir", tmp_path / "file" / "s"),
             "flare-engine": ("--listen", "nonsense")}[program]
    return run(flare, program, *where, *arguments)


@pytest.mark.parametrize("program", ["flared", "flare-engine"])
@pytest.mark.parametrize("level", ["trace", "debug", "info", "warning", "warn", "error", "off"])
def test_services_take_the_same_log_levels(flare, tmp_path, program, level):
    assert cannot_start(flare, tmp_path, program, "--log-level", level).returncode == 1
    assert f"{level}" in help_of(flare, program)


@pytest.mark.parametrize("program", ["flared", "flare-engine"])
def test_services_take_both_spellings_of_the_state_folder(flare, tmp_path, program):
    for spelling in ("--state-dir", "--state"):
        assert cannot_start(flare, tmp_path, program, spelling, tmp_path / "st").returncode == 1
    assert cannot_start(flare, tmp_path, program, "--log-level", "loud").returncode == 2
    assert cannot_start(flare, tmp_path, program, "--statedir", "x").returncode == 2


@pytest.mark.parametrize("arguments, spool", [(("--state-dir", "st"), "st/spool"),
                                              (("--spool-dir", "sp"), "sp"),
                                              (("--state-dir", "st", "--spool-dir", "sp"), "sp")])
def test_flared_spools_in_the_state_folder_unless_told(flare, tmp_path, arguments, spool):
    daemon = subprocess.Popen([BUILD / "bin" / "flared", "--segment-dir", "segments", "--engine",
                               f"unix:{tmp_path}/none", *arguments], env=flare.env, cwd=tmp_path,
                              stderr=subprocess.PIPE, text=True)
    assert "serving" in daemon.stderr.readline()
    daemon.terminate()
    daemon.stderr.close()
    assert daemon.wait(60) == 0
    assert (tmp_path / spool / "daemon_id").is_file()
