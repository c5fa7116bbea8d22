// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "libflare/core/event.h"
#include "libflare/core/segment_layout.h"

// Carries events from one training thread to the daemon of its node, in memory both map.
//
// One thread writes, one thread reads. A full ring refuses the event and counts the drop: waiting
// would slow the training we are here to observe. Either side may vanish without harm to the other.
// Neither side owns the memory. The capacity is a power of two.
namespace flare {

class EventRingWriter {
 public:
  EventRingWriter() = default;
  EventRingWriter(ThreadSlot* slot, Event* events, uint32_t capacity)
      : slot_(slot), events_(events), mask_(capacity - 1) {}

  // False when the ring is full; the drop has then been counted.
  bool Write(const Event& event) {
    const uint64_t head = slot_->head.load(std::memory_order_relaxed);
    if (__builtin_expect(head - cached_tail_ > mask_, 0)) {
      // The tail is the reader's and may hold anything: a tail ahead of the head also refuses.
      cached_tail_ = slot_->tail.load(std::memory_order_acquire);
      if (head - cached_tail_ > mask_) {
        slot_->dropped.store(slot_->dropped.load(std::memory_order_relaxed) + 1,
                             std::memory_order_relaxed);
        return false;
      }
    }
    events_[head & mask_] = event;
    slot_->head.store(head + 1, std::memory_order_release);
    return true;
  }

 private:
  ThreadSlot* slot_ = nullptr;
  Event* events_ = nullptr;
  uint64_t mask_ = 0;
  uint64_t cached_tail_ = 0;
};

// The daemon's end. Safe against a hostile or torn writer: it never reads outside the ring and
// never loops longer than one capacity per call.
class EventRingReader {
 public:
  EventRingReader() = default;
  EventRingReader(ThreadSlot* slot, const Event* events, uint32_t capacity)
      : slot_(slot), events_(events), mask_(capacity - 1) {
    tail_ = slot_->tail.load(std::memory_order_relaxed);
  }

  // Copies up to `max` events into `out` and frees their places. Returns how many.
  // A head that makes no sense (behind the tail, or more than a capacity ahead) is resynchronised
  // and counted in resyncs().
  uint32_t Read(Event* out, uint32_t max) {
    const uint64_t head = slot_->head.load(std::memory_order_acquire);
    uint64_t waiting = head - tail_;
    if (waiting > mask_ + 1) {
      ++resyncs_;
      tail_ = head;
      slot_->tail.store(tail_, std::memory_order_release);
      return 0;
    }
    if (waiting > max) waiting = max;
    for (uint64_t i = 0; i < waiting; ++i) out[i] = events_[(tail_ + i) & mask_];
    tail_ += waiting;
    if (waiting != 0) slot_->tail.store(tail_, std::memory_order_release);
    return static_cast<uint32_t>(waiting);
  }

  uint64_t resyncs() const { return resyncs_; }

 private:
  ThreadSlot* slot_ = nullptr;
  const Event* events_ = nullptr;
  uint64_t mask_ = 0;
  uint64_t tail_ = 0;
  uint64_t resyncs_ = 0;
};

}  // namespace flare
