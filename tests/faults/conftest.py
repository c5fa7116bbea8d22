# SPDX-License-Identifier: Apache-2.0
import json
import os

import harness
import pytest


@pytest.fixture
def start_job(tmp_path):
    """start_job(command, flare_args=(), …): a running JobRun, ended with the test."""
    runs = []

    def start(command, **options):
        run = harness.JobRun(tmp_path / f"run{len(runs)}", command, **options)
        runs.append(run.__enter__())
        return run

    yield start
    for run in runs:
        run.__exit__()


@pytest.fixture
def note(request):
    """note(**figures): appends one JSON line about this test to $FLARE_TEST_FIGURES, and prints it."""
    def write(**figures):
        line = json.dumps({"test": request.node.name, **figures})
        print(line)
        path = os.environ.get("FLARE_TEST_FIGURES")
        if path:
            with open(path, "a", encoding="utf-8") as file:
                file.write(line + "\n")
    return write
