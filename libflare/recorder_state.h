// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <errno.h>
#include <sched.h>

#include <atomic>
#include <cstdint>

#include "libflare/config.h"
#include "libflare/core/segment_writer.h"
#include "libflare/recorder.h"

// What the recorder, the waking and the guards share. Only for libflare's own slow parts; hooks use
// recorder.h.
namespace flare {

// The page that a forked child sees as zeros. `gate` first: hooks read only that.
struct GatePage {
  Gate gate;
  uint32_t live;        // 1 in the process that made the page, 0 in its forked children
  int32_t owner_pid;    // a vfork child shares the page but is another process
  char* segment_begin;  // for the bus guard
  uint64_t segment_bytes;
};

// Where things lie in our own mapping. Filled before the gate is armed and never changed after; not
// read back from the segment, which others can write to.
struct RecorderState {
  Config config;
  Segment segment;
  CommSlot* comms = nullptr;
  NameSlot* names = nullptr;
  ThreadSlot* threads = nullptr;
  Event* rings = nullptr;
};
extern RecorderState g_state;

inline SegmentHeader* Header() { return g_gate->segment; }

// True in the process that owns the segment: not in a child of fork, clone or vfork.
bool OwnsSegment();

// Maps the gate page of this process if there is none. False in a forked child of a process that
// had one, and when memory is short.
bool PrepareGate();
GatePage* CurrentGatePage();  // null when there is none

// Points the recorder at a segment and arms the gate. The header must be complete.
void ArmRecorder(const Segment& segment, TickSource source);

// Stops recording for good in this process and says so in the header.
void SwitchOff();

// True when the node or the user has asked for silence by a file.
bool KillSwitchPresent();

// Restores errno at the end of a scope.
class ErrnoKeeper {
 public:
  ErrnoKeeper() : saved_(errno) {}
  ~ErrnoKeeper() { errno = saved_; }
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  int saved_;
};

// For slow paths only, between threads of this process. Forked children never get here.
class SlowLock {
 public:
  explicit SlowLock(std::atomic<uint32_t>* word) : word_(word) {
    while (word_->exchange(1, std::memory_order_acquire) != 0) sched_yield();
  }
  ~SlowLock() { word_->store(0, std::memory_order_release); }
  SlowLock(const SlowLock&) = delete;
  SlowLock& operator=(const SlowLock&) = delete;

 private:
  std::atomic<uint32_t>* word_;
};

}  // namespace flare
