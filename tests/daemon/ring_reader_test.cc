// SPDX-License-Identifier: Apache-2.0
#include "daemon/ring_reader.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/daemon/segment_fixture.h"

namespace flare::daemon {
namespace {

class RingReaderTest : public ::testing::Test {
 protected:
  std::unique_ptr<SegmentReader> Reader() {
    auto reader = SegmentReader::FromFd(open(fixture_.path().c_str(), O_RDWR), getuid());
    return reader.ok() ? std::move(reader).value() : nullptr;
  }
  static Event Make(uint64_t sequence) {
    Event event{};
    event.kind = EventKind::kCollective;
    event.sequence = sequence;
    event.end_ticks = sequence + 1;
    return event;
  }

  TemporaryDirectory directory_;
  SegmentFixture fixture_{directory_.path()};
};

TEST_F(RingReaderTest, EventsComeOnceInTheOrderOfTheirThread) {
  auto segment = Reader();
  RingReader rings(segment.get());
  std::vector<Event> events;
  uint64_t written = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(fixture_.Write(2, Make(written++)));
    EXPECT_TRUE(rings.Drain(&events).progress);
  }
  ASSERT_EQ(events.size(), written);
  for (uint64_t i = 0; i < written; ++i) EXPECT_EQ(events[i].sequence, i);
  EXPECT_FALSE(rings.Drain(&events).progress);
  EXPECT_EQ(rings.events_read(), written);
}

TEST_F(RingReaderTest, FullRingLosesNewEventsAndTheLossIsCounted) {
  auto segment = Reader();
  RingReader rings(segment.get());
  for (uint64_t i = 0; i < 100; ++i) fixture_.Write(0, Make(i));
  std::vector<Event> events;
  for (uint64_t i = 0; i < 100 && events.size() < 64; ++i) rings.Drain(&events);
  EXPECT_EQ(events.size(), 64u);
  EXPECT_EQ(events.back().sequence, 63u);
  // The slot counts drops in its own field.
  EXPECT_EQ(rings.ring_full_drops(), 36u);
}

TEST_F(RingReaderTest, HeadThatMakesNoSenseIsResynchronised) {
  auto segment = Reader();
  RingReader rings(segment.get());
  fixture_.thread(0)->tid.store(1);
  fixture_.thread(0)->head.store(1ull << 60);
  std::vector<Event> events;
  EXPECT_TRUE(rings.Drain(&events).readable);
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(rings.resyncs(), 1u);
  EXPECT_EQ(fixture_.thread(0)->tail.load(), 1ull << 60);
}

TEST_F(RingReaderTest, ImpossibleKindsAreLeftOutAndCounted) {
  auto segment = Reader();
  RingReader rings(segment.get());
  Event bad = Make(0);
  bad.kind = static_cast<EventKind>(77);
  fixture_.Write(0, bad);
  bad = Make(1);
  bad.operation = static_cast<Operation>(99);
  fixture_.Write(0, bad);
  std::vector<Event> events;
  rings.Drain(&events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].operation, Operation::kUnknown);
  EXPECT_EQ(rings.malformed(), 1u);
}

TEST_F(RingReaderTest, LaterReaderGoesOnWhereTheFirstStopped) {
  std::vector<Event> events;
  {
    auto segment = Reader();
    RingReader rings(segment.get());
    fixture_.Write(1, Make(0));
    rings.Drain(&events);
    EXPECT_FALSE(rings.continued());
  }
  fixture_.Write(1, Make(1));
  auto segment = Reader();
  RingReader rings(segment.get());
  rings.Drain(&events);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].sequence, 1u);
  EXPECT_TRUE(rings.continued());
}

TEST_F(RingReaderTest, FileThatShrankIsReportedUnreadable) {
  auto segment = Reader();
  RingReader rings(segment.get());
  fixture_.Write(0, Make(0));
  ASSERT_EQ(ftruncate(fixture_.fd(), 5000), 0);
  std::vector<Event> events;
  EXPECT_FALSE(rings.Drain(&events).readable);
  EXPECT_TRUE(events.empty());
}

TEST_F(RingReaderTest, WriterOnAnotherThreadLosesNothingButWhatItCounts) {
  auto segment = Reader();
  RingReader rings(segment.get());
  constexpr uint64_t kWrites = 200'000;
  std::atomic<bool> done{false};
  uint64_t refused = 0;
  std::thread writer([&] {
    for (uint64_t i = 0; i < kWrites; ++i) refused += !fixture_.Write(3, Make(i));
    done = true;
  });
  std::vector<Event> events;
  uint64_t read = 0, last = 0;
  bool ordered = true;
  for (bool last_round = false; !last_round;) {
    last_round = done;
    events.clear();
    rings.Drain(&events, last_round);
    for (const Event& event : events) {
      ordered &= read == 0 || event.sequence > last;
      ordered &= event.end_ticks == event.sequence + 1;
      last = event.sequence;
      ++read;
    }
  }
  writer.join();
  EXPECT_TRUE(ordered);
  EXPECT_EQ(read + refused, kWrites);
  EXPECT_EQ(rings.ring_full_drops(), refused);
}

}  // namespace
}  // namespace flare::daemon
