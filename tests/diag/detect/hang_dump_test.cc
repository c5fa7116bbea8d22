// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diag/detect/hang.h"
#include "tests/diag/detect/job_builder.h"

// Jobs that are known from dumps of calls: how long they have stood still is not told.
namespace flare::diag {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kNext = 240;

// All ranks of a healthy job, dumped, and how their processes are is not known.
JobBuilder Dumped(uint32_t ranks) {
  JobBuilder b(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankRecord& record = b[r].record();
    record.state.stands_still = true;
    record.state.process = ProcessState();
    record.steps.clear();
    record.state.steps = 0;
    record.state.last_progress_unix_ns = 0;
    record.state.communicators.front().recent.clear();  // no pace is known
  }
  return b;
}

void Waits(JobBuilder* b, uint32_t rank, double since_s_ago = 0.1) {
  (*b)[rank].WaitsIn(kDefaultGroup, since_s_ago);
  RankState& state = (*b)[rank].record().state;
  state.process = ProcessState();
  state.last_progress_unix_ns = 0;
}

Verdict Only(const JobBuilder& b) {
  const std::vector<Verdict> verdicts = DetectHang(b.job, b.now());
  EXPECT_EQ(verdicts.size(), 1u);
  return verdicts.empty() ? Verdict{} : verdicts[0];
}

TEST(HangDumpTest, WaitOfAnyLengthCounts) {
  JobBuilder b = Dumped(4);
  for (uint32_t r : {0u, 1u, 3u}) Waits(&b, r);
  const Verdict v = Only(b);
  EXPECT_THAT(v.ranks, ElementsAre(Rank(2)));
  EXPECT_THAT(v.summary, HasSubstr("in all-reduce #240 of group default_pg for at least 100 ms."));
  EXPECT_THAT(v.evidence.front().text, HasSubstr("(open call in its dump)"));
}

TEST(HangDumpTest, SameWaitInARunningJobDoesNot) {
  JobBuilder b = Dumped(4);
  for (uint32_t r : {0u, 1u, 3u}) Waits(&b, r);
  for (uint32_t r = 0; r < 4; ++r) {
    b[r].record().state.stands_still = false;
    b[r].record().state.process.life = Life::kRunning;
  }
  EXPECT_THAT(DetectHang(b.job, b.now()), IsEmpty());
}

TEST(HangDumpTest, SuspicionOpensWhenTheWaitItselfIsLong) {
  JobBuilder b = Dumped(2);
  Waits(&b, 0, 10);
  EXPECT_GT(Only(b).open_after_unix_ns, b.now());
  JobBuilder c = Dumped(2);
  Waits(&c, 0, 70);
  EXPECT_LE(Only(c).open_after_unix_ns, c.now());
}

TEST(HangDumpTest, RankThatDidItsPartAndDoesNotEndIsLeftBehind) {
  JobBuilder b = Dumped(4);
  for (uint32_t r : {0u, 1u, 3u}) b[r].Completes(kDefaultGroup, 1, 0.2);
  Waits(&b, 2, 0.2);
  for (uint32_t r : {0u, 1u, 3u}) Waits(&b, r);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "stuck_kernel");
  EXPECT_EQ(v.team, "operations");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(2)));
  EXPECT_THAT(v.victims, ElementsAre(Rank(0), Rank(1), Rank(3)));
}

// It has called what they wait in, but its device is still in the call before.
TEST(HangDumpTest, RankLeftBehindIsMissingInLaterCalls) {
  JobBuilder b = Dumped(3);
  for (uint32_t r : {0u, 1u}) b[r].Completes(kDefaultGroup, 1, 0.2);
  Waits(&b, 2, 0.2);
  for (uint32_t r = 0; r < 3; ++r) Waits(&b, r);
  EXPECT_THAT(Only(b).ranks, ElementsAre(Rank(2)));
}

TEST(HangDumpTest, RankLeftBehindIsNamedThoughNobodyWaits) {
  JobBuilder b = Dumped(3);
  for (uint32_t r : {0u, 1u}) b[r].Completes(kDefaultGroup, 1, 0.2);
  Waits(&b, 2, 0.2);
  EXPECT_THAT(Only(b).ranks, ElementsAre(Rank(2)));
}

TEST(HangDumpTest, DeviceThatHasNotBegunIsNamed) {
  JobBuilder b = Dumped(3);
  for (uint32_t r = 0; r < 3; ++r) {
    Waits(&b, r);
    b[r].record().state.open_calls.back().begun = r != 1;
  }
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "stuck_kernel");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(1)));
}

TEST(HangDumpTest, GroupOfUnknownSizeIsNotTakenForComplete) {
  JobBuilder b = Dumped(2);
  for (uint32_t r = 0; r < 2; ++r) {
    Waits(&b, r);
    b[r].Comm(kDefaultGroup).group_size = 0;
  }
  const Verdict v = Only(b);
  EXPECT_THAT(v.ranks, IsEmpty());
  EXPECT_THAT(v.summary, HasSubstr("not known who is missing"));
}

TEST(HangDumpTest, PlaceOfTheCallIsTold) {
  JobBuilder b = Dumped(2);
  Waits(&b, 0);
  b[0].record().state.open_calls.back().stack = AllReduceFrames();
  OpenCall last;
  last.kind = EventKind::kCollective;
  last.operation = Operation::kAllReduce;
  last.communicator = kDefaultGroup;
  last.sequence = kNext - 1;
  last.stack = {UserFrame()};
  b[1].record().state.last_call = last;
  const Verdict v = Only(b);
  ASSERT_EQ(v.evidence.size(), 2u);
  EXPECT_THAT(v.evidence[0].text,
              HasSubstr("all-reduce #239 of group default_pg, finished, called from "
                        "train_step (train.py:41)"));
  EXPECT_THAT(v.evidence[1].text, HasSubstr("called from train_step (train.py:41)"));
}

// The longest wait may be far from the culprit: 0 waits for 1 in one group, 1 for 2 in another.
TEST(HangDumpTest, SummaryTellsTheCallThatTheCulpritIsMissingIn) {
  constexpr CommId kFar{0xf0};
  JobBuilder b = Dumped(3);
  b.Group(kFar, "far", {0, 1});
  b[0].WaitsIn(kFar, AllReduce(0), 9).record().state.process = ProcessState();
  Waits(&b, 1, 3);
  const Verdict v = Only(b);
  EXPECT_THAT(v.ranks, ElementsAre(Rank(2)));
  EXPECT_THAT(v.summary,
              HasSubstr("2 ranks have waited for it in all-reduce #240 of group default_pg"));
}

}  // namespace
}  // namespace flare::diag
