// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/segment_reader.h"
#include "libflare/core/event.h"

// Drains the rings of all threads of one segment.
//
// The places of events that were read are given back to the writer at once. A ring whose head
// makes no sense is resynchronised and counted; an event with an impossible kind is left out and
// counted. Never reads outside a ring, never loops longer than its capacity. Not thread-safe.
// An idle poll costs one system call.
namespace flare::daemon {

class RingReader {
 public:
  // The reader must live as long as this object.
  explicit RingReader(SegmentReader* segment);

  struct Outcome {
    bool readable = true;   // false: the file has become too short; nothing more will come
    bool complete = true;   // false: more was waiting than one call takes
    bool progress = false;  // something was completed since the last call, read or dropped
  };
  // Appends what is waiting to `out`, at most about kMaxEventsPerPoll events. While nothing happens
  // only the slots in use and a few more are looked at, so that a thread's first event may be seen
  // a few polls late; with `all_slots`, and in the poll after one that found something, all are.
  Outcome Drain(std::vector<Event>* out, bool all_slots = false);

  // How full the fullest ring was in the last call, 0 to 1.
  double fill() const { return fill_; }
  uint64_t events_read() const { return events_read_; }
  uint64_t ring_full_drops() const { return ring_full_drops_; }  // as counted by the writers
  uint64_t resyncs() const { return resyncs_; }
  uint64_t malformed() const { return malformed_; }
  uint64_t last_event_ticks() const { return last_event_ticks_; }  // newest of all threads
  // Events of this segment were read before we came, by an earlier daemon.
  bool continued() const { return continued_; }

  static constexpr size_t kMaxEventsPerPoll = 1u << 16;

 private:
  struct Thread {
    uint64_t tail = 0;
    uint64_t dropped = 0;
    uint64_t last_event_ticks = 0;
    bool known = false;  // tail has been taken from the segment
  };
  void DrainThread(uint32_t thread, uint64_t head, std::vector<Event>* out, Outcome* outcome);
  bool ReadEvents(uint32_t thread, uint64_t from, size_t count, std::vector<Event>* out);
  void KeepWellFormed(size_t first, std::vector<Event>* out);

  SegmentReader* segment_;
  std::vector<Thread> threads_;
  std::vector<unsigned char> slots_;  // copy of the thread slots
  uint32_t watched_slots_;            // slots looked at in each poll; grows with use
  uint32_t polls_ = 0;
  bool active_ = false;  // the last poll found something
  uint64_t events_read_ = 0, ring_full_drops_ = 0, resyncs_ = 0, malformed_ = 0;
  uint64_t last_event_ticks_ = 0;
  bool continued_ = false;
  double fill_ = 0.0;
};

}  // namespace flare::daemon
