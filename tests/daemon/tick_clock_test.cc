// SPDX-License-Identifier: Apache-2.0
#include "daemon/tick_clock.h"

#include <gtest/gtest.h>

namespace flare::daemon {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

TEST(TickClockTest, MonotonicTicksAreNanosecondsBackFromTheLastReading) {
  const ClockReading start{100 * kSecond, 100 * kSecond, 5'000 * kSecond};
  TickClock clock(TickSource::kMonotonicNs, start, start);
  clock.Update({160 * kSecond, 160 * kSecond, 5'060 * kSecond});
  EXPECT_EQ(clock.ToUnixNs(130 * kSecond), 5'030 * kSecond);
  EXPECT_EQ(clock.DurationNs(7), 7u);
}

TEST(TickClockTest, StepOfTheWallClockMovesLaterConversionsOnly) {
  const ClockReading start{100 * kSecond, 100 * kSecond, 5'000 * kSecond};
  TickClock clock(TickSource::kMonotonicNs, start, start);
  clock.Update({101 * kSecond, 101 * kSecond, 9'001 * kSecond});
  EXPECT_EQ(clock.ToUnixNs(101 * kSecond), 9'001 * kSecond);
}

TEST(TickClockTest, TimesThatMakeNoSenseAreMovedAndCounted) {
  const ClockReading start{100 * kSecond, 100 * kSecond, 5'000 * kSecond};
  TickClock clock(TickSource::kMonotonicNs, start, start);
  clock.Update({110 * kSecond, 110 * kSecond, 5'010 * kSecond});
  EXPECT_EQ(clock.ToUnixNs(1), 5'000 * kSecond);
  EXPECT_EQ(clock.ToUnixNs(~0ull), 5'010 * kSecond);
  EXPECT_EQ(clock.clamped(), 2u);
  EXPECT_EQ(clock.ToUnixNs(110 * kSecond + 5), 5'010 * kSecond + 5);
  EXPECT_EQ(clock.clamped(), 2u);
}

TEST(TickClockTest, TimeStampCounterIsMeasuredAgainstTheMonotonicClock) {
  const ClockReading anchor = ReadClocks(TickSource::kTsc);
  TickClock clock(TickSource::kTsc, anchor, anchor);
  ClockReading now = anchor;
  while (now.monotonic_ns < anchor.monotonic_ns + 50'000'000) now = ReadClocks(TickSource::kTsc);
  clock.Update(now);
  const double measured = static_cast<double>(now.monotonic_ns - anchor.monotonic_ns) /
                          static_cast<double>(now.ticks - anchor.ticks);
  EXPECT_NEAR(clock.ns_per_tick() / measured, 1.0, 1e-3);
  EXPECT_NEAR(static_cast<double>(clock.ToUnixNs(anchor.ticks)),
              static_cast<double>(anchor.realtime_ns), 100'000.0);
}

TEST(TickClockTest, LyingAnchorDoesNotChangeTheRate) {
  const ClockReading first = ReadClocks(TickSource::kTsc);
  const ClockReading lie{first.ticks - 1000, first.monotonic_ns - 3600 * kSecond, 1};
  TickClock clock(TickSource::kTsc, lie, first);
  ClockReading now = first;
  while (now.monotonic_ns < first.monotonic_ns + 20'000'000) now = ReadClocks(TickSource::kTsc);
  clock.Update(now);
  const double measured = static_cast<double>(now.monotonic_ns - first.monotonic_ns) /
                          static_cast<double>(now.ticks - first.ticks);
  EXPECT_NEAR(clock.ns_per_tick() / measured, 1.0, 5e-3);
}

}  // namespace
}  // namespace flare::daemon
