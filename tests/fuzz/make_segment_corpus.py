# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of segment_reader_fuzz: patches over a small segment, by the layout contract.

Run it when the layout changes: python3 tests/fuzz/make_segment_corpus.py
"""
import pathlib
import struct

THREADS, RING = 2, 16
HEADER, NAME, COMM, SLOT, EVENT = 4096, 64, 64 + 64 * 32, 704, 64
NAMES = HEADER
COMMS = NAMES + NAME * 1024
SLOTS = COMMS + COMM * 64
RINGS = -(-(SLOTS + SLOT * THREADS) // 4096) * 4096


def patch(offset, data):
    return struct.pack("<IB", offset, len(data)) + data


def event(kind, start, end, comm=0, sequence=0, operation=1, data_type=7):
    return struct.pack("<QQQQQQiIBBBBI", 0, start, end, comm, sequence, 400, -1, 0, kind, operation,
                       data_type, 0, 9)


def ring(thread, events, head=None, tail=0):
    out = b"".join(
        patch(RINGS + (thread * RING + i % RING) * EVENT, e) for i, e in enumerate(events))
    slot = SLOTS + thread * SLOT
    out += patch(slot + 64, struct.pack("<Q", len(events) if head is None else head))
    return out + patch(slot + 128, struct.pack("<Q", tail))


def open_call(thread, depth):
    slot = SLOTS + thread * SLOT
    out = patch(slot + 4, struct.pack("<I", depth))
    for d in range(min(depth, 8)):
        out += patch(slot + 192 + d * 64,
                     struct.pack("<IBBBBQQQQiI", 0, 1, 1, 7, 0, 5, 9, d, 400, -1, 1))
    return out


def comm(index, launched):
    base = COMMS + index * COMM
    out = patch(base, struct.pack("<IIIIQQQQ", 0, 0, 2, 1, 9, launched, launched - 1, 77))
    for s in range(max(0, launched - 64), launched):
        out += patch(base + 64 + s % 64 * 32, struct.pack("<QQQiBBBB", s, 400, 5, -1, 1, 7, 0, 0))
    return out


SEEDS = {
    "empty": b"",
    "steps": ring(0, [event(1, 10, 20, 9, 0), event(11, 30, 30, 0, 0), event(1, 31, 40, 9, 1),
                      event(11, 50, 50, 0, 1)]) + ring(1, [event(5, 1, 8), event(9, 2, 3)]),
    "torn_head": ring(0, [], head=1 << 60),
    "late_reader": ring(0, [event(1, i, i + 1, 9, i) for i in range(RING)], head=40, tail=30),
    "strange_events": ring(0, [event(99, 5, 1), event(1, 9, 2**64 - 1, 9, 2**63, 200, 200),
                               event(11, 2**64 - 1, 2**64 - 1, 0, 2**64 - 1)]),
    "open_calls": open_call(0, 3) + open_call(1, 4000000000),
    "communicators": comm(0, 70) + comm(63, 3) + patch(NAMES + NAME, b"world\xff\x1b\xc3"),
}

if __name__ == "__main__":
    directory = pathlib.Path(__file__).parent / "segment_reader_corpus"
    directory.mkdir(exist_ok=True)
    for name, body in SEEDS.items():
        (directory / name).write_bytes(b"\0\0" + body)
    (directory / "cut").write_bytes(b"\1\x30" + SEEDS["steps"])
