# SPDX-License-Identifier: Apache-2.0
"""How `flare` behaves as a command: help, mistakes, completion, colours, exit statuses."""
import json
import subprocess

import pytest

from flare_command import FLARE, flare  # noqa: F401

COMMANDS = ["run", "jobs", "report", "watch", "doctor", "switch", "completion", "version"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_has_examples(flare, command):
    result = flare(command, "--help")
    assert result.returncode == 0
    assert result.stderr == b""
    text = result.stdout.decode()
    assert "Examples:" in text
    assert f"flare {command}" in text.split("Examples:")[1]


def test_help_names_every_command(flare):
    result = flare("--help")
    assert result.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command} " in result.stdout.decode()


def test_without_a_command_help_is_an_error(flare):
    result = flare()
    assert result.returncode == 2
    assert result.stdout == b""
    assert b"Examples:" in result.stderr


@pytest.mark.parametrize("arguments, words", [
    (["repot"], "no command 'repot'; did you mean 'report'?"),
    (["rnu", "--", "true"], "did you mean 'run'?"),
    (["jobs", "--jsno"], "jobs: no option --jsno; did you mean '--json'?"),
    (["run", "--nmae", "x", "--", "true"], "did you mean '--name'?"),
    (["frobnicate"], "no command 'frobnicate'"),
    (["run"], "no command given"),
    (["report", "--fail-on", "nonsense"], "--fail-on"),
    (["switch", "x", "maybe"], "maybe"),
    (["jobs", "--", "true"], "takes no command"),
])
def test_mistakes_are_usage_errors_that_say_what_was_meant(flare, arguments, words):
    result = flare(*arguments)
    assert result.returncode == 2, result.stderr
    assert result.stdout == b""
    assert words in result.stderr.decode()


def test_a_mistyped_word_cannot_steer_the_terminal(flare):
    result = flare("\x1b[2Jreport")
    assert result.returncode == 2
    assert b"\x1b" not in result.stderr


def test_version(flare):
    assert flare("--version").stdout.startswith(b"flare ")
    document = flare.json("version")
    assert flare("version").stdout.decode() == f"flare {document['version']}\n"


def bash_complete(line, tmp_path):
    """What bash offers for `line` once the script is loaded."""
    script = subprocess.run([FLARE, "completion", "bash"], capture_output=True, check=True).stdout
    (tmp_path / "completion.bash").write_bytes(script)
    words = line.split(" ")
    program = (f"source {tmp_path}/completion.bash || exit 9\n"
               f"COMP_WORDS=({' '.join(repr(w) for w in words)})\n"
               f"COMP_CWORD={len(words) - 1}\n_flare\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"")
    result = subprocess.run(["bash", "-euc", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


@pytest.mark.parametrize("line, offered", [
    ("flare r", ["run", "report"]),
    ("flare run --kill", ["--kill-on-hang"]),
    ("flare switch job o", ["on", "off"]),
    ("flare report --fail-on s", ["slow"]),
    ("flare completion f", ["fish"]),
])
def test_bash_completion_offers_what_fits(tmp_path, line, offered):
    assert sorted(bash_complete(line, tmp_path)) == sorted(offered)


def test_bash_completion_offers_commands_after_the_separator(tmp_path):
    assert "bash" in bash_complete("flare run -- bas", tmp_path)


def test_other_shells_get_every_option(flare):
    for shell in ("zsh", "fish"):
        script = flare("completion", shell)
        assert script.returncode == 0
        assert b"kill-on-hang" in script.stdout


def test_commands_on_an_empty_state_say_what_to_do(flare):
    assert flare("jobs").stdout == b"No jobs seen yet.\n"
    assert flare.json("jobs") == {"schema": "flare.jobs.v1", "jobs": []}
    result = flare("report")
    assert result.returncode == 1
    assert b"flare run -- COMMAND" in result.stderr


@pytest.mark.parametrize("command", ["jobs", "report", "watch"])
def test_an_engine_that_is_not_there_is_an_error_in_words(flare, command):
    result = flare(command, "--engine", "127.0.0.1:1")
    assert result.returncode == 1
    assert b"no engine answers at 127.0.0.1:1" in result.stderr


def test_json_of_doctor_is_json(flare):
    document = flare.json("doctor")
    assert document["schema"] == "flare.doctor.v1"
    assert json.dumps(document)
