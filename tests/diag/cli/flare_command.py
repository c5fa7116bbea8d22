# SPDX-License-Identifier: Apache-2.0
"""The built `flare` and how the tests run it: in a state folder of its own."""
import json
import os
import pathlib
import subprocess
import time

import pytest

BUILD = pathlib.Path(os.environ.get("FLARE_BUILD_DIR", "build")).absolute()
FLARE = BUILD / "bin" / "flare"
SCHEMA = pathlib.Path(__file__).parents[3] / "docs" / "report.schema.json"
PATIENCE_S = 60  # for conditions that come within a second on an idle machine


def clean_environment(state):
    """Ours without what would change the outcome, and with `state` as the state folder."""
    dropped = ("FLARE_", "LD_PRELOAD", "NO_COLOR", "RANK", "WORLD_SIZE", "SLURM_", "OMPI_", "PMI_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    env["XDG_STATE_HOME"] = str(state)
    env["TERM"] = "xterm"
    return env


class Flare:
    def __init__(self, state):
        self.state = state
        self.env = clean_environment(state)

    def __call__(self, *arguments, env=None, **options):
        """Runs to the end; bytes in and out."""
        options.setdefault("timeout", PATIENCE_S)
        options.setdefault("stdin", subprocess.DEVNULL if "input" not in options else None)
        if options["stdin"] is None:
            del options["stdin"]
        return subprocess.run([FLARE, *map(str, arguments)], capture_output=True,
                              env={**self.env, **(env or {})}, **options)

    def start(self, *arguments, env=None, **options):
        return subprocess.Popen([FLARE, *map(str, arguments)], env={**self.env, **(env or {})},
                                **options)

    def json(self, *arguments, **options):
        result = self(*arguments, "--json", **options)
        assert result.returncode in (0, 1, 3), result.stderr.decode()
        return json.loads(result.stdout)


@pytest.fixture
def flare(tmp_path):
    return Flare(tmp_path / "state")


def wait_for(condition, what):
    """Polls until `condition` is true; returns its value."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"never came: {what}")


def check_report(document):
    import jsonschema
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
