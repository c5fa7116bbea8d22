// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "libflare/core/clock.h"

// Turns the ticks of one traced process into nanoseconds since the Unix epoch.
//
// The rate of the time-stamp counter is measured against CLOCK_MONOTONIC: at first by the daemon's
// own two readings, later over the whole span since the process woke, which grows more exact as
// time passes. The segment's anchors are another process's word: a rate from them is taken only
// when it agrees with the daemon's own to 0.1 %. Not thread-safe.
namespace flare::daemon {

// The three clocks, read together.
struct ClockReading {
  uint64_t ticks = 0;
  uint64_t monotonic_ns = 0;
  uint64_t realtime_ns = 0;
};
ClockReading ReadClocks(TickSource source);

class TickClock {
 public:
  // `first` and later readings are the daemon's own; `anchor` comes from the segment.
  TickClock(TickSource source, const ClockReading& anchor, const ClockReading& first);

  // Takes a new reading as the point that conversions start from.
  void Update(const ClockReading& now);

  // Times before the anchor or more than a second after the last reading make no sense: they are
  // moved to the nearest time that does, and counted.
  uint64_t ToUnixNs(uint64_t ticks);
  uint64_t DurationNs(uint64_t ticks) const;
  uint64_t TicksFromNs(uint64_t ns) const;
  uint64_t clamped() const { return clamped_; }
  double ns_per_tick() const { return ns_per_tick_; }

 private:
  const TickSource source_;
  const ClockReading anchor_;
  const ClockReading first_;
  ClockReading now_;
  double ns_per_tick_ = 1.0;
  uint64_t clamped_ = 0;
};

}  // namespace flare::daemon
