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
  static Event Ends(uint64_t end_ticks) {
    Event event = Make(0);
    event.end_ticks = end_ticks;
    return event;
  }
  static std::vector<uint64_t> Sequences(const std::vector<Event>& events) {
    std::vector<uint64_t> sequences;
    for (const Event& event : events) sequences.push_back(event.sequence);
    return sequences;
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

// Its step is safe nowhere yet: a daemon that is killed now must not have lost it.
TEST_F(RingReaderTest, LaterReaderReadsAgainWhatWasNotReleased) {
  std::vector<Event> events;
  {
    auto segment = Reader();
    RingReader rings(segment.get());
    fixture_.Write(1, Make(0));
    rings.Drain(&events);
    rings.Drain(&events);
    EXPECT_EQ(events.size(), 1u);
  }
  fixture_.Write(1, Make(1));
  auto segment = Reader();
  RingReader rings(segment.get());
  events.clear();
  rings.Drain(&events);
  EXPECT_EQ(Sequences(events), (std::vector<uint64_t>{0, 1}));
  EXPECT_FALSE(rings.begun_inside_a_step());
}

TEST_F(RingReaderTest, ReleaseGivesBackASafeStepButItsBoundary) {
  auto segment = Reader();
  RingReader rings(segment.get());
  for (uint64_t end : {10, 20}) fixture_.Write(0, Ends(end));
  fixture_.WriteStep(0, 7, 30);
  fixture_.Write(0, Ends(40));
  for (uint64_t end : {25, 35}) fixture_.Write(2, Ends(end));
  std::vector<Event> events;
  rings.Drain(&events);
  EXPECT_TRUE(rings.Release(30));
  EXPECT_EQ(fixture_.thread(0)->tail.load(), 2u);
  EXPECT_EQ(fixture_.thread(2)->tail.load(), 1u);

  auto again = Reader();
  RingReader later(again.get());
  events.clear();
  later.Drain(&events);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, EventKind::kStep);
  EXPECT_EQ(events[0].sequence, 7u);
  EXPECT_EQ(events[1].end_ticks, 40u);
  EXPECT_EQ(events[2].end_ticks, 35u);
  EXPECT_FALSE(later.begun_inside_a_step());
}

TEST_F(RingReaderTest, NextReleaseTakesTheLastBoundaryAlong) {
  auto segment = Reader();
  RingReader rings(segment.get());
  std::vector<Event> events;
  for (uint64_t step = 0; step < 50; ++step) {
    fixture_.Write(0, Ends(10 * step + 5));
    fixture_.WriteStep(0, step, 10 * step + 10);
    rings.Drain(&events);
    EXPECT_TRUE(rings.Release(10 * step + 10));
    EXPECT_EQ(fixture_.thread(0)->tail.load(), 2 * step + 1);
  }
  EXPECT_EQ(events.size(), 100u);
  EXPECT_EQ(rings.given_up(), 0u);
}

// Room for the writer comes first: at most 32 of these 64 places are held, in polls of 8.
TEST_F(RingReaderTest, HalfOfTheRingIsTheMostThatIsHeld) {
  auto segment = Reader();
  RingReader rings(segment.get());
  std::vector<Event> events;
  for (uint64_t poll = 1; poll <= 5; ++poll) {
    for (int i = 0; i < 8; ++i) fixture_.Write(0, Ends(100));
    rings.Drain(&events);
    EXPECT_EQ(fixture_.thread(0)->tail.load(), poll < 5 ? 0u : 40u);
  }
  EXPECT_EQ(rings.given_up(), 40u);
}

TEST_F(RingReaderTest, RingThatFillsQuicklyHoldsNothing) {
  auto segment = Reader();
  RingReader rings(segment.get());
  std::vector<Event> events;
  for (uint64_t poll = 1; poll <= 3; ++poll) {
    for (int i = 0; i < 9; ++i) fixture_.Write(0, Ends(100));
    rings.Drain(&events);
    // What was there before us came in more than one pause.
    EXPECT_EQ(fixture_.thread(0)->tail.load(), poll == 1 ? 0u : 9 * poll);
  }
}

// The boundary of thread 0 promises that all behind it can be read again, on every thread.
TEST_F(RingReaderTest, GivingUpOnOneThreadTakesTheBoundaryFromTheOther) {
  auto segment = Reader();
  RingReader rings(segment.get());
  std::vector<Event> events;
  fixture_.WriteStep(0, 0, 10);
  fixture_.WriteStep(0, 1, 60);
  rings.Drain(&events);
  rings.Release(10);
  EXPECT_EQ(fixture_.thread(0)->tail.load(), 0u);
  fixture_.Write(1, Ends(50));
  rings.Drain(&events);
  for (int i = 0; i < 9; ++i) fixture_.Write(1, Ends(55));
  fixture_.Write(1, Ends(70));
  rings.Drain(&events);
  EXPECT_EQ(fixture_.thread(0)->tail.load(), 1u);
  EXPECT_TRUE(rings.Release(60));  // thread 1 gave up events that ended later: no boundary
  EXPECT_EQ(fixture_.thread(0)->tail.load(), 2u);
  fixture_.WriteStep(0, 2, 80);
  rings.Drain(&events);
  EXPECT_TRUE(rings.Release(80));  // from here on all is there again
  EXPECT_EQ(fixture_.thread(0)->tail.load(), 2u);
}

TEST_F(RingReaderTest, ReaderThatBeginsInsideAStepSaysSo) {
  fixture_.Write(0, Ends(10));
  fixture_.Write(0, Ends(20));
  fixture_.thread(0)->tail.store(1);
  auto segment = Reader();
  RingReader rings(segment.get());
  std::vector<Event> events;
  rings.Drain(&events);
  EXPECT_EQ(events.size(), 1u);
  EXPECT_TRUE(rings.begun_inside_a_step());
}

TEST_F(RingReaderTest, ReleaseFromAFileThatShrankIsReported) {
  auto segment = Reader();
  RingReader rings(segment.get());
  fixture_.Write(0, Ends(10));
  std::vector<Event> events;
  rings.Drain(&events);
  ASSERT_EQ(ftruncate(fixture_.fd(), 5000), 0);
  EXPECT_FALSE(rings.Release(20));
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
