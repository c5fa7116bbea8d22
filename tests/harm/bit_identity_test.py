# SPDX-License-Identifier: Apache-2.0
"""A real training job gives the same losses to the last bit, the same output and the same status."""
import importlib.metadata

import job
import preload
import pytest

TORCH_MAJOR = int(importlib.metadata.version("torch").split(".")[0])


@pytest.mark.parametrize("arguments", [
    pytest.param((), id="DDP"),
    pytest.param(("--num-workers", 2), id="data workers"),
    pytest.param(("--accumulate", 3, "--metric-groups", 2, "--pairs", "--uneven-sizes"),
                 id="many groups"),
    pytest.param(("--fsdp",), id="FSDP", marks=pytest.mark.skipif(
        TORCH_MAJOR < 2, reason="fully_shard came with torch 2.4")),
])
def test_losses_output_and_status_are_the_same(arguments):
    arguments = ("--steps", 15, *arguments)
    want = job.reference(*arguments)
    assert want[0] == 0 and want[1].count("loss") == 15
    with job.TrainingJob(preload.INERT, *arguments) as training:
        got = training.finish()
        assert got == want
        woken = preload.segments(training.segment_dir)
    assert len(woken) == training.nproc, "the library slept through the job"
    with job.TrainingJob(preload.FORCED, *arguments) as training:
        assert training.finish() == want


@pytest.mark.parametrize("fault,status", [("raise", 1), ("exit0", 0), ("kill", 128 + 9)])
def test_failing_job_fails_the_same_way(fault, status):
    """One rank, so that nothing depends on who is killed first."""
    arguments = ("--steps", 15, "--fault", f"{fault},rank=0,step=5")
    want = job.reference(*arguments, nproc=1)
    assert want[0] == status and want[1].count("loss") == 5
    with job.TrainingJob(preload.INERT, *arguments, nproc=1) as training:
        assert training.finish() == want
        assert len(preload.segments(training.segment_dir)) == 1
