// SPDX-License-Identifier: Apache-2.0
#include "libflare/core/event_ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace flare {
namespace {

constexpr uint32_t kCapacity = 8;

struct EventRingTest : testing::Test {
  Event Numbered(uint64_t number) {
    Event event = {};
    event.sequence = number;
    event.bytes = ~number;
    return event;
  }

  ThreadSlot slot = {};
  Event events[kCapacity] = {};
  EventRingWriter writer{&slot, events, kCapacity};
  Event out[kCapacity] = {};
};

TEST_F(EventRingTest, DeliversEventsInOrder) {
  EventRingReader reader(&slot, events, kCapacity);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(writer.Write(Numbered(i)));
  ASSERT_EQ(reader.Read(out, kCapacity), 5u);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(out[i].sequence, i);
  EXPECT_EQ(reader.Read(out, kCapacity), 0u);
}

TEST_F(EventRingTest, FullRingCountsTheDropAndKeepsOlderEvents) {
  for (uint64_t i = 0; i < kCapacity; ++i) ASSERT_TRUE(writer.Write(Numbered(i)));
  EXPECT_FALSE(writer.Write(Numbered(100)));
  EXPECT_FALSE(writer.Write(Numbered(101)));
  EXPECT_EQ(slot.dropped.load(), 2u);
  EventRingReader reader(&slot, events, kCapacity);
  ASSERT_EQ(reader.Read(out, kCapacity), kCapacity);
  for (uint64_t i = 0; i < kCapacity; ++i) EXPECT_EQ(out[i].sequence, i);
}

TEST_F(EventRingTest, ReadingFreesPlaces) {
  EventRingReader reader(&slot, events, kCapacity);
  for (uint64_t i = 0; i < kCapacity; ++i) ASSERT_TRUE(writer.Write(Numbered(i)));
  ASSERT_EQ(reader.Read(out, 3), 3u);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(writer.Write(Numbered(i)));
  EXPECT_FALSE(writer.Write(Numbered(3)));
}

TEST_F(EventRingTest, TailAheadOfTheHeadRefusesInsteadOfOverwriting) {
  slot.head.store(kCapacity);
  slot.tail.store(kCapacity + 5);
  EXPECT_FALSE(writer.Write(Numbered(1)));
  EXPECT_EQ(slot.dropped.load(), 1u);
  EXPECT_EQ(slot.head.load(), kCapacity);
}

TEST_F(EventRingTest, ReaderResynchronisesOnAHeadThatMakesNoSense) {
  EventRingReader reader(&slot, events, kCapacity);
  slot.head.store(1ull << 60);
  EXPECT_EQ(reader.Read(out, kCapacity), 0u);
  EXPECT_EQ(reader.resyncs(), 1u);
  slot.head.store((1ull << 60) - 1);  // behind the tail
  EXPECT_EQ(reader.Read(out, kCapacity), 0u);
  EXPECT_EQ(reader.resyncs(), 2u);
}

TEST_F(EventRingTest, ReaderStartsWhereTheLastOneStopped) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(writer.Write(Numbered(i)));
  EventRingReader first(&slot, events, kCapacity);
  ASSERT_EQ(first.Read(out, 3), 3u);
  EventRingReader second(&slot, events, kCapacity);
  ASSERT_EQ(second.Read(out, kCapacity), 1u);
  EXPECT_EQ(out[0].sequence, 3u);
}

TEST_F(EventRingTest, ConcurrentReaderSeesEveryAcceptedEventWhole) {
  constexpr uint64_t kEvents = 200'000;
  std::atomic<bool> done{false};
  uint64_t accepted = 0;
  std::thread producer([&] {
    for (uint64_t i = 0; i < kEvents; ++i) accepted += writer.Write(Numbered(i));
    done.store(true);
  });
  EventRingReader reader(&slot, events, kCapacity);
  uint64_t seen = 0, next = 0, torn = 0;
  for (bool last = false; !last;) {
    last = done.load();
    uint32_t count;
    while ((count = reader.Read(out, kCapacity)) != 0) {
      for (uint32_t i = 0; i < count; ++i) {
        torn += out[i].bytes != ~out[i].sequence || out[i].sequence < next;
        next = out[i].sequence + 1;
      }
      seen += count;
    }
  }
  producer.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(seen, accepted);
  EXPECT_EQ(accepted + slot.dropped.load(), kEvents);
}

}  // namespace
}  // namespace flare
