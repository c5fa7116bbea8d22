// SPDX-License-Identifier: Apache-2.0
#include "libflare/core/segment_layout.h"

#include <gtest/gtest.h>

namespace flare {
namespace {

TEST(SegmentLayoutTest, PartsFollowEachOtherWithoutOverlap) {
  for (uint32_t threads : {1u, 8u, 32u, kMaxThreadSlots}) {
    for (uint32_t events : {64u, 4096u, 65536u}) {
      const SegmentGeometry g = ComputeGeometry(threads, events);
      EXPECT_EQ(g.names, sizeof(SegmentHeader));
      EXPECT_GE(g.comms, g.names + sizeof(NameSlot) * kMaxNames);
      EXPECT_GE(g.threads, g.comms + sizeof(CommSlot) * kMaxComms);
      EXPECT_GE(g.rings, g.threads + sizeof(ThreadSlot) * threads);
      EXPECT_EQ(g.total, g.rings + sizeof(Event) * threads * events);
    }
  }
}

TEST(SegmentLayoutTest, PartsAreAligned) {
  const SegmentGeometry g = ComputeGeometry(7, 64);
  EXPECT_EQ(g.comms % alignof(CommSlot), 0u);
  EXPECT_EQ(g.threads % alignof(ThreadSlot), 0u);
  EXPECT_EQ(g.rings % 4096, 0u);
}

TEST(SegmentLayoutTest, LargestGeometryDoesNotOverflow) {
  const SegmentGeometry g = ComputeGeometry(kMaxThreadSlots, kMaxRingEvents);
  EXPECT_EQ(g.total - g.rings, uint64_t{64} * kMaxThreadSlots * kMaxRingEvents);
}

// tests/libflare/segment_dump.py, the daemon and other languages read by these numbers.
TEST(SegmentLayoutTest, OffsetsAreWhatReadersExpect) {
  EXPECT_EQ(offsetof(SegmentHeader, source_id), 96u);
  EXPECT_EQ(offsetof(SegmentHeader, part_state), 456u);
  EXPECT_EQ(offsetof(SegmentHeader, drops), 520u);
  EXPECT_EQ(offsetof(SegmentHeader, step), 592u);
  EXPECT_EQ(offsetof(SegmentHeader, phase), 608u);
  EXPECT_EQ(offsetof(SegmentHeader, exception_type), 620u);
  EXPECT_EQ(offsetof(SegmentHeader, enabled), 896u);
  EXPECT_EQ(sizeof(CommSlot), 2112u);
  EXPECT_EQ(sizeof(ThreadSlot), 704u);
  EXPECT_EQ(offsetof(ThreadSlot, open), 192u);
}

}  // namespace
}  // namespace flare
