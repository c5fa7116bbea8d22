# SPDX-License-Identifier: Apache-2.0
"""What a training job under test says about itself, for the test that watches it.

One JSON line per event in the file given to `open_log`, with the wall time `t` in seconds since the
epoch. A line is one write(2) to a file opened for appending, so ranks and data workers may share it.
"""
import json
import os
import time

_path = None
_rank = None


def open_log(path, rank):
    """Names the file; without a path `say` does nothing."""
    global _path, _rank
    _path, _rank = path, rank


def say(event, **fields):
    if not _path:
        return
    line = json.dumps({"t": time.time(), "event": event, "rank": _rank, "pid": os.getpid(), **fields})
    fd = os.open(_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, line.encode() + b"\n")
    finally:
        os.close(fd)
