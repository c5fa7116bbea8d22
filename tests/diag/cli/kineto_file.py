# SPDX-License-Identifier: Apache-2.0
"""Small profiles as PyTorch writes them, for tests that care about files and not about kernels."""
import gzip
import json


def trace(rank=0, world_size=2, steps=3, base_ns=1_700_000_000_000_000_000, step_us=10_000,
          kernel_us=4_000, slow=1.0):
    """A profile of `steps` steps, each with one matrix product."""
    events = []
    for i in range(steps):
        begin = i * step_us
        events += [
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i + 5}", "pid": 100 + rank,
             "tid": 1, "ts": begin, "dur": step_us},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100 + rank,
             "tid": 1, "ts": begin + 100, "dur": 10, "args": {"correlation": i + 1}},
            {"ph": "X", "cat": "kernel", "name": "ampere_sgemm_128x64_nn", "pid": 0, "tid": 7,
             "ts": begin + 500, "dur": kernel_us * slow,
             "args": {"correlation": i + 1, "stream": 7, "device": 0}},
        ]
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}],
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world_size},
            "baseTimeNanoseconds": base_ns, "traceEvents": events}


def write(path, **options):
    text = json.dumps(trace(**options)).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
