// SPDX-License-Identifier: Apache-2.0
#include "daemon/fold/step_folder.h"

#include <gtest/gtest.h>

#include "daemon/fold/signature_hash.h"

namespace flare::daemon {
namespace {

constexpr uint64_t kMs = 1'000'000;

// Times are milliseconds after `kEpoch` on a clock that counts nanoseconds.
constexpr uint64_t kEpoch = 1'000'000 * kMs;
uint64_t At(uint64_t ms) { return kEpoch + ms * kMs; }

class StepFolderTest : public ::testing::Test {
 protected:
  static Event Collective(uint64_t sequence, uint64_t start_ms, uint64_t end_ms,
                          uint64_t comm = 5) {
    Event event{};
    event.kind = EventKind::kCollective;
    event.operation = Operation::kAllReduce;
    event.data_type = DataType::kFloat32;
    event.comm = comm;
    event.sequence = sequence;
    event.bytes = 400;
    event.peer = kNoPeer;
    event.start_ticks = At(start_ms);
    event.end_ticks = At(end_ms);
    return event;
  }
  static Event Span(EventKind kind, uint64_t start_ms, uint64_t end_ms, uint32_t name_id = 0) {
    Event event{};
    event.kind = kind;
    event.name_id = name_id;
    event.start_ticks = At(start_ms);
    event.end_ticks = At(end_ms);
    return event;
  }
  static Event Step(uint64_t step, uint64_t at_ms) {
    Event event = Span(EventKind::kStep, at_ms, at_ms);
    event.sequence = step;
    return event;
  }

  std::vector<v1::RankStep> Poll(uint64_t now_ms, std::vector<Event> events, uint64_t cpu_ms = 0,
                                 bool complete = true, bool last = false) {
    clock_.Update({At(now_ms), At(now_ms), At(now_ms)});
    std::vector<v1::RankStep> steps;
    folder_.Fold(
        {At(now_ms), cpu_ms * kMs, complete, last}, events, &clock_,
        [this](uint32_t) -> const std::string& { return name_; }, &steps);
    return steps;
  }

  std::string name_ = "evaluate";
  TickClock clock_{TickSource::kMonotonicNs, {kEpoch, kEpoch, kEpoch}, {kEpoch, kEpoch, kEpoch}};
  StepFolder folder_{42};
};

TEST_F(StepFolderTest, StepIsFoldedOnePollAfterItsBoundaryWithEventsThatCameLate) {
  EXPECT_TRUE(Poll(10, {Step(0, 5)}).empty());
  const auto steps = Poll(20, {Collective(0, 1, 4), Collective(1, 6, 9)});
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].source(), 42u);
  EXPECT_EQ(steps[0].step(), 0u);
  ASSERT_EQ(steps[0].communicators_size(), 1);
  EXPECT_EQ(steps[0].communicators(0).count(), 1u);
  EXPECT_EQ(folder_.pending(), 1u);
}

TEST_F(StepFolderTest, PollThatDidNotDrainEverythingFoldsNothing) {
  Poll(10, {Step(0, 5)});
  EXPECT_TRUE(Poll(20, {}, 0, /*complete=*/false).empty());
  EXPECT_EQ(Poll(30, {}).size(), 1u);
}

TEST_F(StepFolderTest, SpanOfAStepRunsFromTheEndOfTheOneBefore) {
  Poll(50, {Span(EventKind::kDataLoad, 2, 8), Step(0, 10), Step(1, 25)});
  const auto steps = Poll(60, {});
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].start_unix_ns(), At(2));
  EXPECT_EQ(steps[0].duration_ns(), 8 * kMs);
  EXPECT_EQ(steps[1].start_unix_ns(), At(10));
  EXPECT_EQ(steps[1].duration_ns(), 15 * kMs);
}

TEST_F(StepFolderTest, StepWithoutItsPredecessorHasNoDuration) {
  Poll(50, {Step(7, 10), Step(9, 30), Step(10, 40)});
  const auto steps = Poll(60, {});
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].duration_ns(), 0u);
  EXPECT_EQ(steps[1].duration_ns(), 0u);
  EXPECT_EQ(steps[2].duration_ns(), 10 * kMs);
}

TEST_F(StepFolderTest, CommunicationIsTheUnionOfIntervalsInsideTheStep) {
  Event send = Span(EventKind::kSend, 30, 35);
  send.comm = 5;
  Poll(10, {Step(0, 10)});
  Poll(50, {Collective(0, 5, 14), Collective(1, 12, 20), Collective(2, 13, 15), send, Step(1, 40)});
  const auto steps = Poll(60, {});
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].communication_ns(), 15 * kMs);  // 10 to 20 and 30 to 35
}

TEST_F(StepFolderTest, DurationsStandAtTheirSequenceAndGapsAreZero) {
  Poll(50, {Collective(12, 1, 4), Collective(10, 1, 2), Step(0, 40)});
  const auto steps = Poll(60, {});
  ASSERT_EQ(steps.size(), 1u);
  const v1::CommunicatorStep& comm = steps[0].communicators(0);
  EXPECT_EQ(comm.first_sequence(), 10u);
  EXPECT_EQ(comm.count(), 3u);
  ASSERT_EQ(comm.duration_us_size(), 3);
  EXPECT_EQ(comm.duration_us(0), 1000u);
  EXPECT_EQ(comm.duration_us(1), 0u);
  EXPECT_EQ(comm.duration_us(2), 3000u);
  ASSERT_EQ(comm.operations_size(), 1);
  EXPECT_EQ(comm.operations(0).count(), 2u);
  EXPECT_EQ(comm.operations(0).bytes(), 800u);
  EXPECT_EQ(comm.operations(0).total_ns(), 4 * kMs);
}

TEST_F(StepFolderTest, MoreThan128CollectivesHaveTotalsButNoList) {
  std::vector<Event> events;
  for (uint64_t s = 0; s < 129; ++s) events.push_back(Collective(s, 1, 2));
  events.push_back(Step(0, 10));
  Poll(50, events);
  const auto steps = Poll(60, {});
  EXPECT_EQ(steps[0].communicators(0).count(), 129u);
  EXPECT_EQ(steps[0].communicators(0).duration_us_size(), 0);
}

TEST_F(StepFolderTest, WildSequencesDoNotMakeALongList) {
  Poll(50, {Collective(0, 1, 2), Collective(1ull << 62, 1, 2), Step(0, 10)});
  const auto steps = Poll(60, {});
  EXPECT_EQ(steps[0].communicators(0).count(), 2u);
  EXPECT_EQ(steps[0].communicators(0).duration_us_size(), 0);
}

TEST_F(StepFolderTest, SignatureDoesNotDependOnTheOrderOfCompletionButOnTheCalls) {
  const auto hash_of = [](std::vector<Event> events) {
    StepAccumulator sums;
    for (const Event& event : events) sums.Add(event);
    v1::RankStep step;
    const TickClock clock(TickSource::kMonotonicNs, {}, {});
    sums.Finish(
        0, ~0ull, clock,
        [](uint32_t) -> const std::string& {
          static const std::string none;
          return none;
        },
        &step);
    return step.communicators(0).signature_hash();
  };
  const uint64_t hash = hash_of({Collective(0, 1, 2), Collective(1, 1, 3)});
  EXPECT_EQ(hash, hash_of({Collective(1, 5, 6), Collective(0, 2, 9)}));
  Event other = Collective(1, 1, 3);
  other.bytes = 404;
  EXPECT_NE(hash, hash_of({Collective(0, 1, 2), other}));
  other.flags = kEventUnequalBytes;
  Event same = other;
  same.bytes = 12;
  EXPECT_EQ(hash_of({other}), hash_of({same}));
}

TEST_F(StepFolderTest, SignatureIsFnv1aOverTheDocumentedBytes) {
  // Computed once by an independent program over 22 bytes: sequence 1, all-reduce, float32, 400,
  // -1.
  SignatureHash hash;
  hash.Add(1, Operation::kAllReduce, DataType::kFloat32, 400, -1, 0);
  EXPECT_EQ(hash.value(), 0x8f3967d7feb4b9ffull);
}

TEST_F(StepFolderTest, PhasesAreSummedByKindAndUserCallsByName) {
  Poll(50, {Span(EventKind::kGc, 1, 2), Span(EventKind::kGc, 4, 7),
            Span(EventKind::kUserCall, 1, 9, 3), Step(0, 10)});
  const auto steps = Poll(60, {});
  ASSERT_EQ(steps[0].phases_size(), 2);
  EXPECT_EQ(steps[0].phases(0).kind(), v1::CALL_KIND_GC);
  EXPECT_EQ(steps[0].phases(0).count(), 2u);
  EXPECT_EQ(steps[0].phases(0).total_ns(), 4 * kMs);
  EXPECT_EQ(steps[0].phases(0).longest_ns(), 3 * kMs);
  EXPECT_EQ(steps[0].phases(1).name(), "evaluate");
  EXPECT_EQ(steps[0].events(), 3u);
}

TEST_F(StepFolderTest, CpuTimeIsTakenAtTheBoundaries) {
  Poll(0, {}, 100);
  Poll(20, {Step(0, 10)}, 120);  // 110 at the boundary
  Poll(40, {Step(1, 35)}, 160);  // 150 at the boundary
  const auto steps = Poll(50, {}, 170);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].cpu_ns(), 40 * kMs);
}

TEST_F(StepFolderTest, ImpossibleTimesAreCountedAndHarmless) {
  Event backwards = Collective(0, 8, 4);
  Event future = Collective(1, 1, 1);
  future.end_ticks = ~0ull;
  Poll(10, {backwards, future});
  EXPECT_EQ(folder_.impossible_times(), 2u);
  Poll(20, {Step(0, 15)});
  const auto steps = Poll(30, {});
  EXPECT_EQ(steps[0].communicators(0).count(), 2u);
  EXPECT_LE(steps[0].communication_ns(), steps[0].duration_ns());
}

TEST_F(StepFolderTest, EventsBeyondTheBoundAreRefusedAndCounted) {
  std::vector<Event> events(StepFolder::kMaxPending / 2, Span(EventKind::kGc, 1, 2));
  for (int i = 0; i < 3; ++i) Poll(10, events, 0, /*complete=*/false);
  EXPECT_LE(folder_.pending(), StepFolder::kMaxPending);
  EXPECT_EQ(folder_.refused(), StepFolder::kMaxPending / 2);
}

TEST_F(StepFolderTest, CommunicatingProgramWithoutStepsGetsPseudoStepsAfterAMinute) {
  std::vector<Event> events;
  for (uint64_t s = 0; s < 20; ++s) events.push_back(Collective(s, 10, 20));
  EXPECT_TRUE(Poll(30, events).empty());
  EXPECT_TRUE(Poll(50'000, {}).empty());
  Poll(61'000, {});
  const auto steps = Poll(61'010, {});
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].step(), kFirstPseudoStep + At(20) / kMs);
  EXPECT_EQ(steps[0].communicators(0).count(), 20u);
  // A real boundary ends that, and real numbers stay what they are.
  Poll(62'000, {Step(0, 61'900)});
  EXPECT_EQ(Poll(62'010, {})[0].step(), 0u);
}

TEST_F(StepFolderTest, PseudoStepsOfALaterDaemonHaveOtherNumbersAndLengthsOfTheirOwn) {
  const auto pseudo_steps = [this](uint64_t from_ms) {
    std::vector<v1::RankStep> found;
    for (uint64_t t = from_ms; t < from_ms + 70'000; t += 500) {
      for (auto& step : Poll(t, {Collective(t, t - 200, t - 100)})) found.push_back(step);
    }
    return found;
  };
  const auto first = pseudo_steps(1'000);
  ASSERT_GT(first.size(), 3u);
  EXPECT_EQ(first.back().start_unix_ns(),
            first[first.size() - 2].start_unix_ns() + first[first.size() - 2].duration_ns());
  folder_ = StepFolder(42);
  const auto second = pseudo_steps(80'000);
  ASSERT_GT(second.size(), 3u);
  EXPECT_GT(second.front().step(), first.back().step());
}

TEST_F(StepFolderTest, LongCompilationBeforeTheFirstStepMakesNoPseudoStep) {
  Poll(10, {Collective(0, 1, 2), Collective(1, 1, 3)});
  for (uint64_t t = 1'000; t < 300'000; t += 1'000) EXPECT_TRUE(Poll(t, {}).empty());
}

TEST_F(StepFolderTest, LastPollFoldsAtOnce) {
  const auto steps = Poll(10, {Collective(0, 1, 2), Step(0, 5)}, 0, true, /*last=*/true);
  EXPECT_EQ(steps.size(), 1u);
}

}  // namespace
}  // namespace flare::daemon
