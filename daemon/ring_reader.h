// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/segment_reader.h"
#include "libflare/core/event.h"

// Drains the rings of all threads of one segment.
//
// A ring whose head makes no sense is resynchronised and counted; an event with an impossible kind
// is left out and counted. Never reads outside a ring, never loops longer than its capacity. Not
// thread-safe. An idle poll costs one system call.
//
// Reading and giving back are two things, so that a daemon that is killed loses nothing:
//
//     released         read                head
//   ────┼────────────────┼───────────────────┼──── events of one thread
//       │ held: read, in │ waiting           │
//       │ no safe step   │
//
// Events are read at once, but their places go back to the writer (the tail in the segment) only
// when the caller says that the step they belong to is safe: on the spool, synced. A later daemon
// begins at the tail, reads again what the first held in memory, and folds the same steps. Of the
// last safe step the boundary itself stays, so that the step after it is known to be whole and has
// a duration; that step is folded twice, and known by its number to whoever has it already.
//
// Held events take room from the writer, and an event dropped for sure is worse than a step lost if
// the daemon is killed in this half second. So a thread holds at most half of its ring, and nothing
// while more than an eighth of the ring arrives in one poll (the first one apart, which finds what
// came before us): then its events go back as soon as they are read, as if there were no holding.
// The same happens when a sync does not end. A writer sees a full ring only if it writes half a
// ring in one pause of the daemon, after a pause in which it wrote less than an eighth.
// Measured: the small DDP job of tests/jobs, at 9 steps a second, writes at most 21 events of one
// thread in 500 ms; of a ring of 4,096 at most 14 were held.
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

  // The step that ended at `boundary_ticks`, and all before it, are safe: gives back what was read
  // and ended no later, but not the boundary. False when the file has become too short.
  bool Release(uint64_t boundary_ticks);

  // How full the fullest ring was in the last call, 0 to 1.
  double fill() const { return fill_; }
  uint64_t events_read() const { return events_read_; }
  uint64_t ring_full_drops() const { return ring_full_drops_; }  // as counted by the writers
  uint64_t resyncs() const { return resyncs_; }
  uint64_t malformed() const { return malformed_; }
  uint64_t last_event_ticks() const { return last_event_ticks_; }  // newest of all threads
  // An earlier daemon read of this segment what we cannot read again: it did not leave a boundary.
  bool begun_inside_a_step() const { return continued_ && !at_boundary_; }
  uint64_t given_up() const { return given_up_; }  // events given back before their step was safe

  static constexpr size_t kMaxEventsPerPoll = 1u << 16;

 private:
  struct Thread {
    uint64_t read = 0;
    uint64_t released = 0;  // the tail in the segment
    uint64_t dropped = 0;
    uint64_t last_event_ticks = 0;
    bool known = false;  // the tail has been taken from the segment
    bool fresh = true;   // nothing has been read yet
  };
  void DrainThread(uint32_t thread, uint64_t head, std::vector<Event>* out, Outcome* outcome);
  bool GiveUp(uint32_t thread, uint64_t newest_ticks);
  bool ReleaseThread(uint32_t thread, uint64_t boundary_ticks);
  bool ReleaseUpTo(uint32_t thread, uint64_t index);
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
  bool at_boundary_ = false;
  uint32_t boundary_thread_ = kNoThread;  // whose tail stands at the last safe boundary
  uint64_t given_up_ = 0;
  uint64_t given_up_ticks_ = 0;  // of events up to here some can no longer be read again
  std::vector<Event> scan_;
  double fill_ = 0.0;

  static constexpr uint32_t kNoThread = ~0u;
};

}  // namespace flare::daemon
