# SPDX-License-Identifier: Apache-2.0
"""Flight Recorder dumps that PyTorch itself writes, diagnosed."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
FLARE = pathlib.Path(os.environ.get("FLARE_BUILD_DIR", HERE.parents[2] / "build")) / "bin/flare"

c10d = pytest.importorskip("torch._C._distributed_c10d")
if not hasattr(c10d, "_dump_fr_trace"):
    pytest.skip("this PyTorch has no Flight Recorder for gloo", allow_module_level=True)


def diagnose(folder):
    done = subprocess.run([FLARE, "diagnose", "--json", folder], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["findings"]


def dumps_of(folder, fault):
    subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4",
                    "--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0",
                    HERE / "flight_recorder_job.py", folder, fault],
                   env={**os.environ, "TORCH_FR_BUFFER_SIZE": "100", "OMP_NUM_THREADS": "1"},
                   capture_output=True, timeout=120, check=False)
    assert len(list(folder.iterdir())) == 4
    return diagnose(folder)


def test_missing_rank_is_named_with_its_last_call(tmp_path):
    findings = dumps_of(tmp_path, "missing")
    assert len(findings) == 1
    assert findings[0]["class"] == "hang"
    assert findings[0]["ranks"] == [2]
    assert findings[0]["victims"] == [0, 1, 3]
    evidence = " ".join(e["text"] for e in findings[0]["evidence"])
    assert "train_step (flight_recorder_job.py:" in evidence


def test_other_call_is_a_mismatch_with_its_place(tmp_path):
    findings = dumps_of(tmp_path, "mismatch")
    assert len(findings) == 1
    assert findings[0]["cause"] == "collective_mismatch"
    assert findings[0]["ranks"] == [2]
    assert findings[0]["state"] == "open"
    evidence = " ".join(e["text"] for e in findings[0]["evidence"])
    assert "evaluate (flight_recorder_job.py:" in evidence
