# SPDX-License-Identifier: Apache-2.0
"""Reads a segment as segment_layout.h lays it out, for tests and for a look by hand.

    python3 segment_dump.py FILE...
"""
import dataclasses
import struct
import sys

MAGIC = 0x4745534552414C46
KINDS = ["none", "collective", "send", "recv", "comm_init", "data_load", "backward", "optimizer",
         "checkpoint", "gc", "user_call", "step", "synchronize"]
OPERATIONS = ["unknown", "all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter",
              "gather", "scatter", "all_to_all", "barrier", "send", "recv"]
TYPES = ["unknown", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
         "complex64", "complex128", "bool", "bfloat16", "float8"]
DROPS = ["ring_full", "no_thread_slot", "no_comm_slot", "name_table", "work_table"]
PARTS = ["gloo", "python", "tensor_layout", "lock"]
FAILED, BYTES_UNKNOWN, UNEQUAL_BYTES = 1, 2, 4
NO_PEER = -1
NAME_BYTES, COMM_BYTES, THREAD_BYTES, OPEN_BYTES, EVENT_BYTES = 64, 2112, 704, 64, 64
MAX_COMMS, MAX_OPEN, RECENT = 64, 8, 64

# Offsets in the header; test_offsets in contract_test.py compares them with the compiler's.
HEADER = {
    "magic": (0, "Q"), "version": (8, "I"), "header_bytes": (12, "I"), "total_bytes": (16, "Q"),
    "names_offset": (24, "Q"), "comms_offset": (32, "Q"), "threads_offset": (40, "Q"),
    "rings_offset": (48, "Q"), "thread_count": (56, "I"), "ring_events": (60, "I"),
    "ready": (64, "I"), "tick_source": (68, "I"), "anchor_ticks": (72, "Q"),
    "anchor_monotonic_ns": (80, "Q"), "anchor_realtime_ns": (88, "Q"), "source_id": (96, "Q"),
    "pid": (104, "i"), "main_tid": (108, "i"), "process_start_clock_ticks": (112, "Q"),
    "pid_namespace": (120, "Q"), "rank": (128, "I"), "world_size": (132, "I"),
    "local_rank": (136, "I"), "attempt": (140, "I"), "job": (144, "64s"),
    "job_name": (208, "64s"), "node": (272, "64s"), "library_version": (336, "32s"),
    "facts_version": (368, "I"), "python_version_hex": (372, "I"),
    "python_runtime_address": (376, "Q"), "python_main_thread_state": (384, "Q"),
    "framework": (392, "64s"), "part_state": (456, "16I"), "drops": (520, "8Q"),
    "name_count": (584, "I"), "step": (592, "Q"), "step_ticks": (600, "Q"), "phase": (608, "I"),
    "exit_code": (612, "i"), "exception_version": (616, "I"), "exception_type": (620, "64s"),
    "exception_text": (684, "192s"), "enabled": (896, "I"),
}


def text(raw):
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def word(values, index):
    return values[index] if index < len(values) else f"#{index}"


@dataclasses.dataclass
class Event:
    launch: int
    start: int
    end: int
    comm: int
    sequence: int
    bytes: int
    peer: int
    name: str
    kind: str
    operation: str
    type: str
    flags: int
    thread: int


class Segment:
    def __init__(self, data):
        self.data = data
        for name, (offset, form) in HEADER.items():
            values = struct.unpack_from("<" + form, data, offset)
            value = values if len(values) > 1 else values[0]
            setattr(self, name, text(value) if isinstance(value, bytes) else value)
        if self.magic != MAGIC or self.version != 1:
            raise ValueError("not a segment of layout 1")
        self.names = {i: text(self._raw(self.names_offset + i * NAME_BYTES, NAME_BYTES))
                      for i in range(1, self.name_count + 1)}
        self.names[0] = ""
        self.comms = [c for c in map(self._comm, range(MAX_COMMS)) if c["comm"]]
        self.threads = [t for t in map(self._thread, range(self.thread_count)) if t["tid"]]

    @classmethod
    def load(cls, path):
        with open(path, "rb") as file:
            return cls(file.read())

    def _raw(self, offset, size):
        return self.data[offset:offset + size]

    def _comm(self, index):
        at = self.comms_offset + index * COMM_BYTES
        version, rank, size, name = struct.unpack_from("<4I", self.data, at)
        comm, launched, completed, last_end, p2p_launched, p2p_completed = struct.unpack_from(
            "<6Q", self.data, at + 16)
        recent = []
        for i in range(RECENT):
            sequence, size_bytes, launch, peer, op, dtype, flags = struct.unpack_from(
                "<QQQiBBB", self.data, at + 64 + i * 32)
            if launch:
                recent.append({"sequence": sequence, "bytes": size_bytes, "launch": launch,
                               "peer": peer, "operation": word(OPERATIONS, op),
                               "type": word(TYPES, dtype), "flags": flags})
        return {"comm": comm, "group_rank": rank, "group_size": size, "version": version,
                "name": self.names.get(name, ""), "launched": launched, "completed": completed,
                "last_end": last_end, "p2p_launched": p2p_launched,
                "p2p_completed": p2p_completed, "recent": recent}

    def _thread(self, index):
        at = self.threads_offset + index * THREAD_BYTES
        tid, depth, dropped, last = struct.unpack_from("<IIQQ", self.data, at)
        head = struct.unpack_from("<Q", self.data, at + 64)[0]
        tail = struct.unpack_from("<Q", self.data, at + 128)[0]
        opened = [self._open(at + 192 + i * OPEN_BYTES) for i in range(min(depth, MAX_OPEN))]
        ring = self.rings_offset + index * self.ring_events * EVENT_BYTES
        first = max(tail, head - self.ring_events)
        events = [self._event(ring + (n % self.ring_events) * EVENT_BYTES)
                  for n in range(first, head)]
        return {"tid": tid, "depth": depth, "dropped": dropped, "last": last,
                "name": text(self._raw(at + 24, 16)), "head": head, "tail": tail,
                "open": opened, "events": events}

    def _open(self, at):
        version, kind, op, dtype, flags, start, comm, sequence, size, peer, name = \
            struct.unpack_from("<IBBBBQQQQiI", self.data, at)
        return {"version": version, "kind": word(KINDS, kind), "operation": word(OPERATIONS, op),
                "type": word(TYPES, dtype), "flags": flags, "start": start, "comm": comm,
                "sequence": sequence, "bytes": size, "peer": peer,
                "name": self.names.get(name, "")}

    def _event(self, at):
        launch, start, end, comm, sequence, size, peer, name, kind, op, dtype, flags, thread = \
            struct.unpack_from("<6QiI4BI", self.data, at)
        return Event(launch, start, end, comm, sequence, size, peer, self.names.get(name, ""),
                     word(KINDS, kind), word(OPERATIONS, op), word(TYPES, dtype), flags, thread)

    def events(self, *kinds):
        """Events of all threads by the time they ended, of the given kinds only if any."""
        found = [e for t in self.threads for e in t["events"] if not kinds or e.kind in kinds]
        return sorted(found, key=lambda e: e.end)


def main(paths):
    for path in paths:
        segment = Segment.load(path)
        print(f"{path}: job {segment.job} rank {segment.rank}/{segment.world_size} pid "
              f"{segment.pid} step {segment.step} phase {segment.phase} exit {segment.exit_code} "
              f"{segment.framework} drops {segment.drops} parts {segment.part_state[:4]}")
        for comm in segment.comms:
            print("  comm {comm:016x} {name} rank {group_rank}/{group_size} launched {launched} "
                  "completed {completed} p2p {p2p_launched}/{p2p_completed}".format(**comm))
        for thread in segment.threads:
            print(f"  thread {thread['tid']} {thread['name']} events {thread['head']} dropped "
                  f"{thread['dropped']} depth {thread['depth']} open {thread['open']}")
        for e in segment.events():
            print(f"    {e.kind:10} {e.operation:14} comm {e.comm:016x} seq {e.sequence} bytes "
                  f"{e.bytes} {e.type} peer {e.peer} flags {e.flags} thread {e.thread} took "
                  f"{e.end - e.start} {e.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
