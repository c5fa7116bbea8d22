# SPDX-License-Identifier: Apache-2.0
"""Things that go wrong, or merely look wrong, in one rank of a training job.

Each fault is done for real (a real signal, a real lock, a real blocked read) and belongs to one place
of the step: "compute" between forward and backward, "metrics" where the job reduces its loss, "save"
between two steps. `seconds` makes the same thing end by itself: that is the healthy twin. Without
it the fault lasts for ever. Faults of the data loader live in data.py.
"""
import gc
import os
import random
import signal
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist

import events


def _deadline(seconds):
    return time.monotonic() + seconds if seconds else float("inf")


def stop(job, seconds):
    os.kill(os.getpid(), signal.SIGSTOP)


def kill(job, seconds):
    os.kill(os.getpid(), signal.SIGKILL)


def exit0(job, seconds):
    os._exit(0) if seconds == 1 else sys.exit(0)


def raise_error(job, seconds):
    raise RuntimeError("the loss of this step is not finite")


def loop(job, seconds):
    """An endless search: Python code that never ends and calls nothing."""
    search_for_better_bucket(_deadline(seconds))


def search_for_better_bucket(until):
    tries = 0
    while time.monotonic() < until:
        tries = (tries * 1103515245 + 12345) & 0x7FFFFFFF
    return tries


def fifo(job, seconds):
    """Reads a pipe in the file system that nobody writes to (for `seconds`)."""
    path = os.path.join(tempfile.mkdtemp(prefix="flare-job-"), "shard.fifo")
    os.mkfifo(path)
    fd = os.open(path, os.O_RDWR)
    if seconds:
        threading.Timer(seconds, os.write, (fd, b"late")).start()
    with os.fdopen(fd, "rb", buffering=0) as shard:
        read_shard(shard)


def read_shard(shard):
    return shard.read(4)


def fifo_open(job, seconds):
    """Blocks in open(2) instead of read(2)."""
    path = os.path.join(tempfile.mkdtemp(prefix="flare-job-"), "shard.fifo")
    os.mkfifo(path)
    if seconds:
        threading.Timer(seconds, lambda: open(path, "wb").close()).start()
    with open(path, "rb") as shard:
        shard.read()


def deadlock(job, seconds):
    """Main thread and a helper take two locks in opposite order."""
    first, second = threading.Lock(), threading.Lock()
    helper_has_second, main_has_first = threading.Event(), threading.Event()

    def helper():
        with second:
            helper_has_second.set()
            main_has_first.wait()
            if first.acquire(timeout=seconds or -1):
                first.release()

    threading.Thread(target=helper, daemon=True).start()
    with first:
        helper_has_second.wait()
        main_has_first.set()
        take_second_lock(second)


def take_second_lock(lock):
    with lock:
        pass


def garbage(job, seconds):
    """A large live heap and full collections, which take long and help nobody."""
    until = time.monotonic() + (seconds or 1)
    heap = [[i, {"a": i}] for i in range(400000)]
    while time.monotonic() < until:
        gc.collect()
    del heap


class SlowFile:
    """A file on slow storage: a pipe drained at a fixed rate by another thread."""

    def __init__(self, total_bytes, seconds):
        self._read_fd, self._write_fd = os.pipe()
        self._chunk = max(total_bytes // max(int(seconds * 10), 1), 1)
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    def _drain(self):
        taken = 0
        while data := os.read(self._read_fd, self._chunk):
            taken += len(data)
            if taken >= self._chunk:
                taken -= self._chunk
                time.sleep(0.1)

    def write(self, data):
        view = memoryview(data)
        while view:
            view = view[os.write(self._write_fd, view):]
        return len(data)

    def flush(self):
        pass

    def close(self):
        os.close(self._write_fd)
        self._reader.join()
        os.close(self._read_fd)


def checkpoint(job, seconds):
    """torch.save to slow storage."""
    state = {"model": job.model.state_dict(), "pad": torch.zeros(1 << 20)}
    total_bytes = sum(t.numel() * t.element_size() for t in state["model"].values()) + (4 << 20)
    slow_file = SlowFile(total_bytes, seconds or 20)
    torch.save(state, slow_file)
    slow_file.close()


def evaluate(job, seconds):
    """Evaluation on one rank only."""
    until = _deadline(seconds or 20)
    tokens = torch.zeros((8, job.args.context), dtype=torch.long)
    model = job.model.module if hasattr(job.model, "module") else job.model
    with torch.no_grad():
        while time.monotonic() < until:
            model(tokens)


def compile_first(job, seconds):
    """Really compiles, again and again, until the time is up."""
    until = _deadline(seconds or 15)
    while time.monotonic() < until:
        if hasattr(torch, "compile"):
            torch._dynamo.reset()
            torch.compile(lambda x: (x.sin() + x.cos()).relu().sum(), backend="eager")(torch.ones(8))
        else:
            torch.jit.trace(lambda x: (x.sin() + x.cos()).relu().sum(), torch.ones(8))


def pause(job, seconds):
    time.sleep(seconds or 5)


# Faults of the metrics reduction itself: the job asks for them by name in Job.reduce_metrics.
COLLECTIVE_FAULTS = ("skip_allreduce", "wrong_size", "group_order", "wrong_operation")
# Faults of the data loader, handled in its worker.
DATA_FAULTS = ("data_stall", "slow_data")
# Faults that last from their step on: the job asks for them in each step.
LASTING_FAULTS = ("slow_compute", "uneven")

AT_COMPUTE = {"stop": stop, "kill": kill, "exit0": exit0, "raise": raise_error, "loop": loop,
              "fifo": fifo, "fifo_open": fifo_open, "deadlock": deadlock, "gc": garbage,
              "compile": compile_first, "pause": pause}
AT_SAVE = {"checkpoint": checkpoint, "eval": evaluate}

KINDS = sorted({*AT_COMPUTE, *AT_SAVE, *COLLECTIVE_FAULTS, *DATA_FAULTS, *LASTING_FAULTS})


class Fault:
    """One fault: what, on which rank (-1 all), at which step, for how long or how much."""

    def __init__(self, text):
        fields = dict(f.split("=", 1) for f in text.split(",")[1:])
        self.kind = text.split(",")[0]
        if self.kind not in KINDS:
            raise ValueError(f"no fault {self.kind!r}; known: {', '.join(KINDS)}")
        self.rank = int(fields.get("rank", 1))
        self.step = int(fields.get("step", 20))
        self.arg = float(fields.get("arg", 0))
        self.every = int(fields.get("every", 0))  # again each so many steps; 0 = once

    def hits(self, rank, step):
        if self.rank not in (-1, rank) or step < self.step:
            return False
        return step == self.step or (self.every and (step - self.step) % self.every == 0)

    def lasts(self, rank, step):
        return self.rank in (-1, rank) and step >= self.step

    def announce(self, step):
        events.say("fault", kind=self.kind, step=step)

    def run(self, table, job, step):
        """Does the fault if it belongs to this place of this step."""
        if self.kind in table and self.hits(job.rank, step):
            self.announce(step)
            table[self.kind](job, self.arg)
            events.say("fault_over", kind=self.kind, step=step)


def uneven_seconds(rank, step):
    """Uneven but alive: mostly nothing, now and then more than a second."""
    draw = random.Random(rank * 100003 + step)
    return draw.uniform(0.8, 1.6) if draw.random() < 0.06 else draw.uniform(0, 0.12)
