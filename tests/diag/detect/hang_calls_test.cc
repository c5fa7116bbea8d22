// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diag/detect/hang.h"
#include "tests/diag/detect/job_builder.h"

// Ranks that do not make the same calls. Sequence numbers begin at 240 (60 steps of 4 calls).
namespace flare::diag {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kNext = 240;
constexpr CommId kMetrics{0xe0};

Verdict Only(const JobBuilder& b) {
  const std::vector<Verdict> verdicts = DetectHang(b.job, b.now());
  EXPECT_EQ(verdicts.size(), 1u);
  return verdicts.empty() ? Verdict{} : verdicts[0];
}

TEST(HangCallsTest, OtherSizeIsAMismatch) {
  JobBuilder b(4);
  for (uint32_t r : {0u, 1u, 2u}) b[r].WaitsIn(kDefaultGroup, AllReduce(kNext), 2);
  b[3].WaitsIn(kDefaultGroup, AllReduceOf(kNext, 5 * 1024), 2);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "collective_mismatch");
  EXPECT_EQ(v.finding_class, "hang");
  EXPECT_EQ(v.team, "algorithm");
  EXPECT_TRUE(v.conclusive);
  EXPECT_THAT(v.ranks, ElementsAre(Rank(3)));
  EXPECT_EQ(v.summary,
            "Rank 3 on node b calls all-reduce #240 of 5.0 KiB float32 of group default_pg in step "
            "60 where the other 3 ranks pass 1.0 KiB.");
}

TEST(HangCallsTest, OtherTypeOrRootOrOperationIsAMismatch) {
  for (int what = 0; what < 3; ++what) {
    JobBuilder b(3);
    Signature usual = CallOf(Operation::kBroadcast, kNext, 64, 0), odd = usual;
    if (what == 0) odd.data_type = DataType::kFloat64;
    if (what == 1) odd.peer = 1;
    if (what == 2) odd.operation = Operation::kReduce;
    for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kDefaultGroup, usual, 2);
    b[1].WaitsIn(kDefaultGroup, odd, 2);
    const Verdict v = Only(b);
    EXPECT_EQ(v.cause, "collective_mismatch") << what;
    EXPECT_THAT(v.ranks, ElementsAre(Rank(1))) << what;
  }
}

TEST(HangCallsTest, UnequalSizesThatAreAllowedAgree) {
  JobBuilder b(3);
  for (uint32_t r = 0; r < 3; ++r) {
    Signature call = CallOf(Operation::kAllToAll, kNext, 100 * (r + 1));
    call.unequal_bytes_allowed = true;
    b[r].WaitsIn(kDefaultGroup, call, 1.8);
  }
  EXPECT_THAT(DetectHang(b.job, b.now()), IsEmpty());
}

// The receiver of a message of the wrong size dies, in gloo; it did nothing wrong.
TEST(HangCallsTest, DeadVictimOfAMismatchIsNotBlamed) {
  JobBuilder b(3);
  b[0].WaitsIn(kDefaultGroup, AllReduce(kNext), 2).Died(1.8);
  b[1].WaitsIn(kDefaultGroup, AllReduceOf(kNext, 2048 * 77), 2);
  b[2].WaitsIn(kDefaultGroup, AllReduce(kNext), 2)
      .Exited(1, 1.7)
      .Raised("RuntimeError", "Connection closed by peer");
  const Verdict v = Only(b);
  EXPECT_EQ(v.finding_class, "error");
  EXPECT_EQ(v.cause, "collective_mismatch");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(1)));
  EXPECT_THAT(v.victims, ElementsAre(Rank(0), Rank(2)));
}

TEST(HangCallsTest, OneSkippedCallShowsAsShift) {
  JobBuilder b(3);
  for (uint32_t r : {0u, 2u}) {
    b[r].Calls(kDefaultGroup, AllReduce(kNext), 2.1)
        .WaitsIn(kDefaultGroup, AllReduce(kNext + 1), 2);
  }
  b[1].WaitsIn(kDefaultGroup, AllReduceOf(kNext, BucketBytes(kNext + 1)), 2);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "collective_skipped");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(1)));
  EXPECT_THAT(v.summary, HasSubstr("skipped all-reduce #240 of 1.0 KiB float32"));
}

// Nobody got further than the call itself: the pattern of the steps before tells the next one.
TEST(HangCallsTest, SkippedCallIsKnownByThePatternOfTheSteps) {
  JobBuilder b(4);
  for (uint32_t r : {0u, 2u, 3u}) b[r].WaitsIn(kDefaultGroup, AllReduce(kNext), 2);
  b[1].WaitsIn(kDefaultGroup, AllReduceOf(kNext, BucketBytes(kNext + 1)), 2);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "collective_skipped");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(1)));
}

TEST(HangCallsTest, OfTwoRanksTheOneOutsideThePatternSkipped) {
  JobBuilder b(2);
  b[0].WaitsIn(kDefaultGroup, AllReduceOf(kNext, BucketBytes(kNext + 1)), 2);
  b[1].WaitsIn(kDefaultGroup, AllReduce(kNext), 2);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "collective_skipped");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(0)));
}

TEST(HangCallsTest, ExtraCallShowsAsShiftBack) {
  JobBuilder b(3);
  for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kDefaultGroup, AllReduce(kNext), 2);
  b[1].Calls(kDefaultGroup, CallOf(Operation::kAllGather, kNext, 8), 2.1)
      .WaitsIn(kDefaultGroup, AllReduceOf(kNext + 1, BucketBytes(kNext)), 2);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "collective_skipped");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(1)));
  EXPECT_THAT(v.summary, HasSubstr("extra call"));
}

TEST(HangCallsTest, TwoRanksWithoutPatternAreBothNamed) {
  JobBuilder b(2, 0);
  b[0].WaitsIn(kDefaultGroup, AllReduceOf(0, 8), 3);
  b[1].WaitsIn(kDefaultGroup, AllReduceOf(0, 16), 3);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "collective_mismatch");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(0), Rank(1)));
  EXPECT_LT(v.confidence, 0.7);
  EXPECT_THAT(v.summary, HasSubstr("disagree"));
}

// state_dict() on rank 0 only: it gathers while the others are at the barrier.
TEST(HangCallsTest, GatherUnderAGuardAgainstABarrier) {
  JobBuilder b(4);
  b[0].WaitsIn(kDefaultGroup, CallOf(Operation::kAllGather, kNext, 512), 2);
  for (uint32_t r : {1u, 2u, 3u}) {
    b[r].WaitsIn(kDefaultGroup, CallOf(Operation::kBarrier, kNext, 0), 2);
  }
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "collective_mismatch");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(0)));
}

TEST(HangCallsTest, RankAheadInStepsLeftACallOut) {
  JobBuilder b(3);
  for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kDefaultGroup, 2);
  b[1].Steps(61).Exited(0, 2);  // same sizes everywhere: it finished, one call short
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "collective_skipped");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(1)));
  EXPECT_TRUE(v.conclusive);
}

// One step's calls of rank 1 are short by one; equal sizes, so the job goes on.
TEST(HangCallsTest, CountsOfStepsShowASkipInARunningJob) {
  JobBuilder b(3);
  for (RankStep& step : b.job.ranks.at(Rank(1)).steps) {
    if (step.step.value == 40) step.communicators[0].count = kCallsPerStep - 1;
    if (step.step.value > 40) step.communicators[0].first_sequence -= 1;
  }
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "collective_skipped");
  EXPECT_FALSE(v.conclusive);
  EXPECT_THAT(v.ranks, ElementsAre(Rank(1)));
  EXPECT_THAT(v.summary, HasSubstr("1 collective less of group default_pg in step 40"));
}

TEST(HangCallsTest, CountsThatMoveToAndFroAreNotReported) {
  JobBuilder b(3);
  for (RankStep& step : b.job.ranks.at(Rank(1)).steps) {
    if (step.step.value % 5 == 0) step.communicators[0].first_sequence -= 1;
  }
  EXPECT_THAT(DetectHang(b.job, b.now()), IsEmpty());
}

// Sizes differ on one rank and gloo or NCCL took it.
TEST(HangCallsTest, HashOfAStepShowsAMismatchThatDidNotHang) {
  JobBuilder b(3);
  CommunicatorStep& comm = b.job.ranks.at(Rank(2)).steps[50].communicators[0];
  comm.signature_hash = 77;
  comm.operations[0].bytes += 1024;
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "collective_mismatch");
  EXPECT_TRUE(v.conclusive);
  EXPECT_THAT(v.ranks, ElementsAre(Rank(2)));
}

TEST(HangCallsTest, HashOfAnIncompleteStepIsNotCompared) {
  JobBuilder b(3);
  RankStep& step = b.job.ranks.at(Rank(2)).steps[50];
  step.communicators[0].signature_hash = 77;
  step.communicators[0].operations[0].bytes += 1024;
  step.drops = {{"ring_full", 1}};
  EXPECT_THAT(DetectHang(b.job, b.now()), IsEmpty());
  step.drops.clear();
  step.communicators[0].duration_us[2] = 0;  // still ran at the end of the step
  EXPECT_THAT(DetectHang(b.job, b.now()), IsEmpty());
}

// ---- Two groups. Each step: 4 all-reduces of DDP, 60 ms of work, then the metrics.

void StepsWithMetrics(RankBuilder rank, CommId second, double end_s_ago) {
  CommunicatorState& ddp = rank.Comm(kDefaultGroup);
  ddp.recent.clear();
  constexpr int kSteps = 12;
  for (int s = 0; s < kSteps; ++s) {
    const double begin = end_s_ago + 0.1 * (kSteps - s);
    for (uint32_t i = 0; i < kCallsPerStep; ++i) {
      rank.Calls(kDefaultGroup, AllReduce(ddp.launched), begin - 0.06 - 0.005 * i);
    }
    rank.Calls(kMetrics, AllReduceOf(rank.Comm(kMetrics).launched, 4), begin - 0.090);
    if (second.value != 0) {
      rank.Calls(second, AllReduceOf(rank.Comm(second).launched, 4), begin - 0.092);
    }
  }
  for (CommId comm : {kDefaultGroup, kMetrics, second}) {
    if (comm.value != 0) rank.Comm(comm).completed = rank.Comm(comm).launched;
  }
}

TEST(HangCallsTest, SkipInAGroupOfItsOwnIsNotAnOrderCycle) {
  JobBuilder b(3);
  b.Group(kMetrics, "metrics", {0, 1, 2});
  for (uint32_t r = 0; r < 3; ++r) {
    StepsWithMetrics(b[r], CommId(), 3.0);
    for (int i = 3; i >= 0; --i) b[r].Completes(kDefaultGroup, 1, 2.92 + 0.005 * i);
  }
  // The metrics come 15 ms after the last bucket, the next bucket 70 ms after the metrics.
  for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kMetrics, AllReduceOf(12, 4), 2.905);
  b[1].Frames(BackwardFrames()).WaitsIn(kDefaultGroup, 2.840);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "collective_skipped");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(1)));
  EXPECT_TRUE(v.conclusive);
  EXPECT_THAT(v.summary, HasSubstr("skipped all-reduce #12 of 4 B float32 of group metrics"));
}

TEST(HangCallsTest, BackwardPassTellsASkipWithoutClearPauses) {
  JobBuilder b(3);
  b.Group(kMetrics, "metrics", {0, 1, 2});
  for (uint32_t r = 0; r < 3; ++r) {
    StepsWithMetrics(b[r], CommId(), 3.0);
    for (int i = 3; i >= 0; --i) b[r].Completes(kDefaultGroup, 1, 2.92 + 0.005 * i);
  }
  for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kMetrics, AllReduceOf(12, 4), 2.905);
  b[1].Frames(BackwardFrames()).WaitsIn(kDefaultGroup, 2.900).InCall(EventKind::kBackward, 2.901);
  EXPECT_EQ(Only(b).cause, "collective_skipped");
}

TEST(HangCallsTest, TwoGroupsInOppositeOrderAreACycleWithoutSingleCulprit) {
  constexpr CommId kSecond{0xf0};
  JobBuilder b(3);
  b.Group(kMetrics, "metrics", {0, 1, 2}).Group(kSecond, "second", {0, 1, 2});
  for (uint32_t r = 0; r < 3; ++r) {
    StepsWithMetrics(b[r], kSecond, 3.0);
    for (int i = 3; i >= 0; --i) b[r].Completes(kDefaultGroup, 1, 2.92 + 0.005 * i);
  }
  for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kMetrics, AllReduceOf(12, 4), 2.905);
  b[1].WaitsIn(kSecond, AllReduceOf(12, 4), 2.904);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "collective_order_cycle");
  EXPECT_EQ(v.team, "algorithm");
  EXPECT_TRUE(v.conclusive);
  EXPECT_THAT(v.ranks, ElementsAre(Rank(0), Rank(1), Rank(2)));
}

// The pauses of the last step, hit by a busy machine, would call this a skip of rank 1.
TEST(HangCallsTest, OneDelayedStepDoesNotMakeAnOppositeOrderASkip) {
  constexpr CommId kSecond{0xf0};
  JobBuilder b(3);
  b.Group(kMetrics, "metrics", {0, 1, 2}).Group(kSecond, "second", {0, 1, 2});
  for (uint32_t r = 0; r < 3; ++r) {
    StepsWithMetrics(b[r], kSecond, 3.0);
    b[r].Comm(kSecond).recent.back().launched_unix_ns += 40'000'000;
    for (int i = 3; i >= 0; --i) b[r].Completes(kDefaultGroup, 1, 2.92 + 0.005 * i);
  }
  for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kMetrics, AllReduceOf(12, 4), 2.905);
  b[1].WaitsIn(kSecond, AllReduceOf(12, 4), 2.885);
  EXPECT_EQ(Only(b).cause, "collective_order_cycle");
}

}  // namespace
}  // namespace flare::diag
