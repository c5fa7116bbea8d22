// SPDX-License-Identifier: Apache-2.0
#include "daemon/ring_reader.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <utility>

namespace flare::daemon {
namespace {

// Threads claim slots from the front. Of idle polls, one in this many looks at all slots.
constexpr uint32_t kFullLookEvery = 4;
constexpr uint32_t kSpareSlots = 4;
constexpr uint64_t kHeldPart = 2;  // one in so many places of a ring may be held ...
constexpr uint64_t kBusyPart = 8;  // ... and none when so large a part of it came in one poll
constexpr size_t kScanEvents = 64;

template <typename T>
T Pick(const unsigned char* slot, size_t offset) {
  T value;
  std::memcpy(&value, slot + offset, sizeof(T));
  return value;
}

}  // namespace

RingReader::RingReader(SegmentReader* segment)
    : segment_(segment),
      threads_(segment->identity().thread_count),
      slots_(segment->identity().thread_count * sizeof(ThreadSlot)),
      watched_slots_(segment->identity().thread_count) {}

RingReader::Outcome RingReader::Drain(std::vector<Event>* out, bool all_slots) {
  Outcome outcome;
  fill_ = 0.0;
  const uint32_t all = segment_->identity().thread_count;
  all_slots |= active_ || polls_++ % kFullLookEvery == 0;
  const uint32_t look = all_slots ? all : watched_slots_;
  if (!segment_->ReadAt(segment_->ThreadSlotOffset(0), slots_.data(), look * sizeof(ThreadSlot))) {
    outcome.readable = false;
    return outcome;
  }
  // Heads were copied above; the events they announce are copied below, never before.
#if !defined(__SANITIZE_THREAD__)  // which knows no fences, and sees no copy made by the kernel
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
  uint32_t used = 0;
  for (uint32_t t = 0; t < look; ++t) {
    const unsigned char* slot = slots_.data() + t * sizeof(ThreadSlot);
    const uint64_t head = Pick<uint64_t>(slot, offsetof(ThreadSlot, head));
    if (head == 0 && Pick<uint32_t>(slot, offsetof(ThreadSlot, tid)) == 0) continue;
    used = t + 1;
    Thread& thread = threads_[t];
    const uint64_t last_ticks = Pick<uint64_t>(slot, offsetof(ThreadSlot, last_event_ticks));
    const uint64_t dropped = Pick<uint64_t>(slot, offsetof(ThreadSlot, dropped));
    if (!thread.known) {
      thread.known = true;
      thread.read = thread.released = Pick<uint64_t>(slot, offsetof(ThreadSlot, tail));
      continued_ |= thread.read != 0;
    }
    if (last_ticks != thread.last_event_ticks || dropped != thread.dropped || head != thread.read) {
      outcome.progress = true;
    }
    // A count that goes back is no count: take it as a new start.
    if (dropped > thread.dropped) ring_full_drops_ += dropped - thread.dropped;
    thread.dropped = dropped;
    thread.last_event_ticks = last_ticks;
    last_event_ticks_ = std::max(last_event_ticks_, last_ticks);
    if (head != thread.read) DrainThread(t, head, out, &outcome);
    if (!outcome.readable) return outcome;
  }
  if (used + kSpareSlots > watched_slots_ || look == all) {
    watched_slots_ = std::min(all, used + kSpareSlots);
  }
  active_ = outcome.progress;
  return outcome;
}

void RingReader::DrainThread(uint32_t t, uint64_t head, std::vector<Event>* out, Outcome* outcome) {
  Thread& thread = threads_[t];
  const uint64_t capacity = segment_->identity().ring_events;
  uint64_t waiting = head - thread.read;
  if (waiting > capacity) {
    // Seen once it may be a torn copy; the second look decides.
    uint64_t again = 0;
    if (!segment_->ReadAt(segment_->ThreadSlotOffset(t) + offsetof(ThreadSlot, head), &again,
                          sizeof(again))) {
      outcome->readable = false;
      return;
    }
    head = again;
    waiting = head - thread.read;
    if (waiting > capacity) {
      ++resyncs_;
      thread.read = head;
      outcome->readable = ReleaseUpTo(t, head);
      return;
    }
  }
  fill_ = std::max(fill_, static_cast<double>(waiting) / static_cast<double>(capacity));
  const bool busy = !thread.fresh && waiting > capacity / kBusyPart;
  const size_t before = out->size();
  const uint64_t room = before < kMaxEventsPerPoll ? kMaxEventsPerPoll - before : 0;
  if (waiting > room) {
    waiting = room;
    outcome->complete = false;
  }
  if (waiting == 0) return;
  if (!ReadEvents(t, thread.read, waiting, out)) {
    out->resize(before);
    outcome->readable = false;
    return;
  }
  // Where an earlier daemon stopped: it leaves a boundary when all behind it can be read again.
  if (std::exchange(thread.fresh, false) && thread.read != 0) {
    at_boundary_ |= (*out)[before].kind == EventKind::kStep;
  }
  thread.read += waiting;
  events_read_ += waiting;
  const uint64_t newest_ticks = out->back().end_ticks;
  if (busy || thread.read - thread.released > capacity / kHeldPart) {
    outcome->readable = GiveUp(t, newest_ticks);
  }
  KeepWellFormed(before, out);
}

// Its events are in the caller's memory only from now on.
bool RingReader::GiveUp(uint32_t t, uint64_t newest_ticks) {
  Thread& thread = threads_[t];
  given_up_ += thread.read - thread.released;
  given_up_ticks_ = std::max(given_up_ticks_, newest_ticks);
  if (!ReleaseUpTo(t, thread.read)) return false;
  if (boundary_thread_ == kNoThread) return true;
  // Nor does the boundary say any longer that all behind it can be read.
  const uint32_t b = std::exchange(boundary_thread_, kNoThread);
  return b == t || ReleaseUpTo(b, threads_[b].released + 1);
}

bool RingReader::Release(uint64_t boundary_ticks) {
  boundary_thread_ = kNoThread;
  for (uint32_t t = 0; t < threads_.size(); ++t) {
    if (threads_[t].read != threads_[t].released && !ReleaseThread(t, boundary_ticks)) return false;
  }
  return true;
}

// The events of a thread lie in the order in which they ended, but for clocks of another mind: the
// first that ended later holds those behind it.
bool RingReader::ReleaseThread(uint32_t t, uint64_t boundary_ticks) {
  const Thread& thread = threads_[t];
  const bool whole_behind = boundary_ticks >= given_up_ticks_;
  uint64_t index = thread.released;
  bool done = false;
  while (!done && index != thread.read) {
    scan_.clear();
    if (!ReadEvents(t, index, std::min<uint64_t>(kScanEvents, thread.read - index), &scan_)) {
      return false;
    }
    for (const Event& event : scan_) {
      const bool boundary = event.kind == EventKind::kStep && event.end_ticks == boundary_ticks;
      done = event.end_ticks > boundary_ticks || (boundary && whole_behind);
      if (boundary && whole_behind) boundary_thread_ = t;
      if (done) break;
      ++index;
    }
  }
  return index == thread.released || ReleaseUpTo(t, index);
}

bool RingReader::ReleaseUpTo(uint32_t t, uint64_t index) {
  threads_[t].released = index;
  return segment_->WriteTail(t, index);
}

bool RingReader::ReadEvents(uint32_t t, uint64_t from, size_t count, std::vector<Event>* out) {
  const uint64_t capacity = segment_->identity().ring_events;
  const size_t before = out->size();
  out->resize(before + count);
  const size_t to_end = static_cast<size_t>(capacity - (from & (capacity - 1)));
  const size_t first = std::min(count, to_end);
  return segment_->ReadAt(segment_->EventOffset(t, from), out->data() + before,
                          first * sizeof(Event)) &&
         (first == count ||
          segment_->ReadAt(segment_->EventOffset(t, from + first), out->data() + before + first,
                           (count - first) * sizeof(Event)));
}

void RingReader::KeepWellFormed(size_t first, std::vector<Event>* out) {
  size_t kept = first;
  for (size_t i = first; i < out->size(); ++i) {
    Event& event = (*out)[i];
    const auto kind = static_cast<uint8_t>(event.kind);
    if (kind == 0 || kind >= kEventKindCount) {
      ++malformed_;
      continue;
    }
    if (static_cast<uint8_t>(event.operation) >= kOperationCount) {
      event.operation = Operation::kUnknown;
    }
    if (static_cast<uint8_t>(event.data_type) >= kDataTypeCount) {
      event.data_type = DataType::kUnknown;
    }
    if (kept != i) (*out)[kept] = event;
    ++kept;
  }
  out->resize(kept);
}

}  // namespace flare::daemon
