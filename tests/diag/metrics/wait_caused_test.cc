// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/wait_caused.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flare::diag {
namespace {

using testing::Pair;
using testing::UnorderedElementsAre;

constexpr CommId kA{1}, kB{2};

// Durations in microseconds of the collectives of one rank on one communicator in step 1.
void Add(Job* job, uint32_t rank, CommId comm, std::vector<uint32_t> durations_us,
         uint32_t group_size = 0, uint64_t first_sequence = 10) {
  RankRecord& record = job->ranks[Rank(rank)];
  record.rank = Rank(rank);
  if (record.steps.empty()) {
    record.steps.emplace_back();
    record.steps.back().step = StepId(1);
  }
  CommunicatorStep step;
  step.communicator = comm;
  step.first_sequence = first_sequence;
  step.count = static_cast<uint32_t>(durations_us.size());
  step.duration_us = std::move(durations_us);
  record.steps.back().communicators.push_back(std::move(step));
  if (group_size > 0) {
    CommunicatorState state;
    state.communicator = comm;
    state.group_size = group_size;
    record.state.communicators.push_back(state);
  }
}

std::vector<StepWait> Compute(const Job& job) { return WaitCaused(job, StepId(0), StepId(9)); }

TEST(WaitCausedTest, ChargesTheLastToArrive) {
  Job job;
  Add(&job, 0, kA, {50});
  Add(&job, 1, kA, {10});
  Add(&job, 2, kA, {30});
  const auto waits = Compute(job);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_THAT(waits[0].caused, UnorderedElementsAre(Pair(Rank(1), 60'000)));
  EXPECT_EQ(waits[0].total_ns, 60'000u);
  EXPECT_EQ(waits[0].step, StepId(1));
}

TEST(WaitCausedTest, JoinsBySequenceNotByPosition) {
  Job job;
  Add(&job, 0, kA, {100, 20}, 0, 10);
  Add(&job, 1, kA, {10, 90}, 0, 11);  // sequences 11 and 12: only 11 is common
  const auto waits = Compute(job);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_THAT(waits[0].caused, UnorderedElementsAre(Pair(Rank(1), 10'000)));
}

TEST(WaitCausedTest, LeavesCollectivesOutThatAMemberDidNotReport) {
  Job job;
  Add(&job, 0, kA, {50}, 3);
  Add(&job, 1, kA, {10}, 3);  // the third member was never heard of: it may have been the last
  EXPECT_TRUE(Compute(job).empty());
}

TEST(WaitCausedTest, ZeroMeansNotObserved) {
  Job job;
  Add(&job, 0, kA, {50, 7});
  Add(&job, 1, kA, {0, 5});
  const auto waits = Compute(job);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].total_ns, 2'000u);
}

TEST(WaitCausedTest, PassesTheChargeOnAlongCommunicators) {
  // Rank 1 waits 100 us for rank 0 in A, therefore rank 2 waits 100 us for rank 1 in B.
  Job job;
  Add(&job, 0, kA, {10}, 2);
  Add(&job, 1, kA, {110}, 2);
  Add(&job, 1, kB, {10}, 2);
  Add(&job, 2, kB, {110}, 2);
  const auto waits = Compute(job);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_THAT(waits[0].caused, UnorderedElementsAre(Pair(Rank(0), 200'000)));
}

TEST(WaitCausedTest, PassesOnOnlyWhatItWaited) {
  // Rank 1 waited 40 us in A but came 100 us late to B: 60 of the 100 are its own.
  Job job;
  Add(&job, 0, kA, {10}, 2);
  Add(&job, 1, kA, {50}, 2);
  Add(&job, 1, kB, {10}, 2);
  Add(&job, 2, kB, {110}, 2);
  const auto waits = Compute(job);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_THAT(waits[0].caused, UnorderedElementsAre(Pair(Rank(0), 80'000), Pair(Rank(1), 60'000)));
}

TEST(WaitCausedTest, PassesNothingOnWithinOneCommunicator) {
  Job job;
  Add(&job, 0, kA, {10, 110});
  Add(&job, 1, kA, {110, 10});
  const auto waits = Compute(job);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_THAT(waits[0].caused,
              UnorderedElementsAre(Pair(Rank(0), 100'000), Pair(Rank(1), 100'000)));
}

TEST(WaitCausedTest, RanksThatWaitForEachOtherKeepTheSum) {
  Job job;
  Add(&job, 0, kA, {10}, 2);
  Add(&job, 1, kA, {110}, 2);
  Add(&job, 0, kB, {110}, 2);
  Add(&job, 1, kB, {10}, 2);
  const auto waits = Compute(job);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_NEAR(static_cast<double>(waits[0].total_ns), 200'000, 2);
}

}  // namespace
}  // namespace flare::diag
