// SPDX-License-Identifier: Apache-2.0
#include "daemon/tick_clock.h"

#include <cmath>

namespace flare::daemon {
namespace {

constexpr uint64_t kFutureToleranceNs = 1'000'000'000;
// Shorter spans than this are dominated by the time it takes to read two clocks.
constexpr uint64_t kMinSpanNs = 5'000'000;
// Two clocks read within so long were read together.
constexpr uint64_t kGoodBracketNs = 300;
constexpr double kRateAgreement = 1e-3;

double Rate(const ClockReading& from, const ClockReading& to) {
  if (to.ticks <= from.ticks || to.monotonic_ns <= from.monotonic_ns + kMinSpanNs) return 0.0;
  const double rate = static_cast<double>(to.monotonic_ns - from.monotonic_ns) /
                      static_cast<double>(to.ticks - from.ticks);
  return rate > 0.05 && rate < 100.0 ? rate : 0.0;
}

// The daemon's reading of its first use of each clock, shared by all segments: the longer it has
// run, the better the rate it knows.
const ClockReading& ProcessReference() {
  static const ClockReading reference = [] {
    const ClockReading r = ReadClocks(TickSource::kTsc);
    // Once per daemon: wait until a rate can be told from it.
    while (MonotonicNs() < r.monotonic_ns + 2 * kMinSpanNs) {
      timespec pause{0, 1'000'000};
      nanosleep(&pause, nullptr);
    }
    return r;
  }();
  return reference;
}

}  // namespace

ClockReading ReadClocks(TickSource source) {
  ClockReading best;
  uint64_t best_width = ~0ull;
  // The reading with the narrowest bracket: one that was not interrupted in the middle.
  for (int i = 0; i < 4; ++i) {
    ClockReading r;
    const uint64_t before = MonotonicNs();
    r.ticks = ReadTicks(source);
    r.realtime_ns = RealtimeNs();
    const uint64_t after = MonotonicNs();
    r.monotonic_ns = before + (after - before) / 2;
    if (source == TickSource::kMonotonicNs) r.monotonic_ns = r.ticks;
    if (after - before < best_width) {
      best_width = after - before;
      best = r;
    }
    if (best_width < kGoodBracketNs) break;
  }
  return best;
}

TickClock::TickClock(TickSource source, const ClockReading& anchor, const ClockReading& first)
    : source_(source), anchor_(anchor), first_(first), now_(first) {
  Update(first);
}

void TickClock::Update(const ClockReading& now) {
  now_ = now;
  if (source_ == TickSource::kMonotonicNs) return;
  double own = Rate(first_, now);
  const double process = Rate(ProcessReference(), now);
  if (process > 0.0) own = process;
  if (own <= 0.0) return;
  const double anchored = Rate(anchor_, now);
  const bool agrees = anchored > 0.0 && std::abs(anchored / own - 1.0) < kRateAgreement;
  const bool longer = agrees && anchor_.monotonic_ns < ProcessReference().monotonic_ns;
  ns_per_tick_ = longer ? anchored : own;
}

uint64_t TickClock::DurationNs(uint64_t ticks) const {
  if (source_ == TickSource::kMonotonicNs) return ticks;
  return static_cast<uint64_t>(static_cast<double>(ticks) * ns_per_tick_);
}

uint64_t TickClock::TicksFromNs(uint64_t ns) const {
  if (source_ == TickSource::kMonotonicNs) return ns;
  return static_cast<uint64_t>(static_cast<double>(ns) / ns_per_tick_);
}

uint64_t TickClock::ToUnixNs(uint64_t ticks) {
  uint64_t from = ticks;
  if (ticks < anchor_.ticks && anchor_.ticks <= now_.ticks) {
    ++clamped_;
    from = anchor_.ticks;
  }
  if (from <= now_.ticks) {
    const uint64_t ago = DurationNs(now_.ticks - from);
    return ago < now_.realtime_ns ? now_.realtime_ns - ago : 0;
  }
  uint64_t ahead = DurationNs(from - now_.ticks);
  if (ahead > kFutureToleranceNs) {
    ++clamped_;
    ahead = 0;
  }
  return now_.realtime_ns + ahead;
}

}  // namespace flare::daemon
