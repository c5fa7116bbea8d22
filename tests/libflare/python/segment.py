# SPDX-License-Identifier: Apache-2.0
"""Reads what a traced process left in its segment: just what the tests of the Python part ask for.

The layout is that of libflare/core/segment_layout.h and event.h, version 1.
"""
import collections
import glob
import os
import struct

MAGIC = 0x4745534552414C46
EVENT = struct.Struct("<6QiI4BI")
THREAD_SLOT_BYTES, HEAD_OFFSET, DROPPED_OFFSET = 704, 64, 8
NAME_BYTES, MAX_NAMES = 64, 1024

KINDS = ["none", "collective", "send", "recv", "comm_init", "data_load", "backward", "optimizer",
         "checkpoint", "gc", "user_call", "step", "synchronize"]
PARTS = ["gloo", "python", "tensor_layout", "lock"]
STATES = ["idle", "active", "missing_symbol", "unsupported", "failed"]
FAILED = 1

Span = collections.namedtuple(
    "Span", "kind name start end sequence failed thread")


def _text(raw):
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


class Segment:
    """One segment file; the process has ended, so nothing in it moves."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self._raw = raw = f.read()
        magic, self.version = struct.unpack_from("<QI", raw, 0)
        assert magic == MAGIC and self.version == 1, path
        self._names, _, self._threads, self._rings = struct.unpack_from("<4Q", raw, 24)
        self._thread_count, self._ring_events = struct.unpack_from("<2I", raw, 56)
        self.pid, = struct.unpack_from("<i", raw, 104)
        self.python_version, self.runtime, self.main_thread_state = struct.unpack_from("<IQQ", raw, 372)
        self.framework = _text(raw[392:456])
        states = struct.unpack_from("<4I", raw, 456)
        self.parts = {part: STATES[state] for part, state in zip(PARTS, states)}
        self.step, = struct.unpack_from("<Q", raw, 592)
        self.exit_code, = struct.unpack_from("<i", raw, 612)
        self.exception = (_text(raw[620:684]), _text(raw[684:876]))
        self.spans = sorted(self._read_spans(), key=lambda span: (span.start, -span.end))

    def _name(self, index):
        at = self._names + index * NAME_BYTES
        return _text(self._raw[at:at + NAME_BYTES]) if 0 < index < MAX_NAMES else ""

    def _read_spans(self):
        for thread in range(self._thread_count):
            slot = self._threads + thread * THREAD_SLOT_BYTES
            head, = struct.unpack_from("<Q", self._raw, slot + HEAD_OFFSET)
            ring = self._rings + thread * self._ring_events * EVENT.size
            for i in range(min(head, self._ring_events)):  # nobody drains: the oldest stay
                (_, start, end, _, sequence, _, _, name, kind, _, _, flags, tid) = EVENT.unpack_from(self._raw, ring + i * EVENT.size)
                yield Span(KINDS[kind], self._name(name), start, end, sequence,
                           bool(flags & FAILED), tid)

    def of(self, kind):
        return [span for span in self.spans if span.kind == kind]

    def counts(self):
        return dict(collections.Counter(span.kind for span in self.spans))

    def calls(self):
        """How often each named function was called."""
        return dict(collections.Counter(span.name for span in self.of("user_call")))


def read_all(directory):
    return [Segment(path) for path in sorted(glob.glob(os.path.join(directory, "*.seg")))]


if __name__ == "__main__":
    import sys
    for segment in read_all(sys.argv[1]):
        print(f"pid {segment.pid} python {segment.python_version:#x} {segment.framework!r}",
              f"runtime {segment.runtime:#x} main {segment.main_thread_state:#x}",
              f"step {segment.step} exit {segment.exit_code} {segment.exception}", segment.parts,
              segment.counts(), segment.calls(), sep="\n  ")
