// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/late_arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "diag/metrics/collective_match.h"

namespace flare::diag {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr CommId kComm{7};
constexpr double kAlarm = 1e-4;

// A job of one step in which late[i] comes last to the i-th collective, by `wait_us`.
Job MakeJob(uint32_t ranks, const std::vector<uint32_t>& late, uint32_t wait_us) {
  Job job;
  for (uint32_t r = 0; r < ranks; ++r) {
    RankRecord& record = job.ranks[Rank(r)];
    record.rank = Rank(r);
    RankStep& step = record.steps.emplace_back();
    step.step = StepId(1);
    CommunicatorStep& comm = step.communicators.emplace_back();
    comm.communicator = kComm;
    comm.count = static_cast<uint32_t>(late.size());
    for (const uint32_t last : late) comm.duration_us.push_back(10 + (last == r ? 0 : wait_us));
  }
  return job;
}

TEST(LateArrivalsTest, CountsWhoIsLastAndWhatTheOthersWait) {
  const auto ranks = LateArrivals(MakeJob(4, {2, 2, 0, 2}, 500), kAlarm);
  EXPECT_EQ(ranks.at(Rank(2)).last, 3u);
  EXPECT_EQ(ranks.at(Rank(2)).collectives, 4u);
  EXPECT_DOUBLE_EQ(ranks.at(Rank(2)).expected_last, 1);
  EXPECT_EQ(ranks.at(Rank(2)).caused_ns, 1'500'000u);
  EXPECT_EQ(ranks.at(Rank(2)).charged_ns, 4'500'000u);
  EXPECT_EQ(ranks.at(Rank(1)).last, 0u);
  // P(at least 3 of 4 with chance 1/4) = 13/256, for four ranks.
  EXPECT_NEAR(ranks.at(Rank(2)).false_alarm, 4 * 13.0 / 256, 1e-9);
  EXPECT_EQ(ranks.at(Rank(1)).false_alarm, 1);
}

TEST(LateArrivalsTest, JitterOfLaunchesDoesNotCount) {
  EXPECT_THAT(LateArrivals(MakeJob(4, {2, 2, 2, 2, 2, 2}, 49), kAlarm), IsEmpty());
  EXPECT_THAT(LateArrivals(MakeJob(4, {2, 2, 2, 2, 2, 2}, 50), kAlarm), SizeIs(4));
}

TEST(LateArrivalsTest, CollectivesThatAMemberDidNotShowDoNotCount) {
  Job job = MakeJob(3, {1, 1}, 500);
  job.ranks.at(Rank(2)).steps[0].communicators[0].duration_us[1] = 0;
  EXPECT_EQ(LateArrivals(job, kAlarm).at(Rank(1)).collectives, 1u);
  CommunicatorState state;
  state.communicator = kComm;
  state.group_size = 4;  // one member is in no file
  job.ranks.at(Rank(0)).state.communicators.push_back(state);
  EXPECT_THAT(LateArrivals(job, kAlarm), IsEmpty());
}

// Rank 0 is last to 30 of 50; of the other 20 rank 3 to 12, which is no more than a bit much among
// 50 of eight ranks, but too much by far among 20 of seven.
TEST(LateArrivalsTest, ARankIsNotHiddenByOneThatIsLaterStill) {
  std::vector<uint32_t> late(30, 0);
  late.insert(late.end(), 12, 3);
  for (const uint32_t r : {1, 2, 4, 5, 6, 7, 1, 2}) late.push_back(r);
  const auto ranks = LateArrivals(MakeJob(8, late, 500), kAlarm);
  EXPECT_TRUE(ranks.at(Rank(0)).is_late);
  EXPECT_TRUE(ranks.at(Rank(3)).is_late);
  EXPECT_NEAR(ranks.at(Rank(3)).expected_last, 20.0 / 7, 1e-9);
  EXPECT_FALSE(ranks.at(Rank(1)).is_late);
  EXPECT_EQ(ranks.at(Rank(3)).collectives, 50u);
}

// The promise behind `false_alarm`, on healthy jobs: no rank is special.
TEST(LateArrivalsTest, HealthyJobsRarelyLookUnlikely) {
  std::mt19937 random(5);
  int below = 0;
  constexpr int kJobs = 4000;
  for (int i = 0; i < kJobs; ++i) {
    const uint32_t ranks = 2 + random() % 8;
    std::vector<uint32_t> late(8 + random() % 60);
    for (uint32_t& r : late) r = random() % ranks;
    double least = 1;
    for (const auto& [rank, found] : LateArrivals(MakeJob(ranks, late, 300), 0)) {
      least = std::min(least, found.false_alarm);
    }
    below += least < 0.01;
  }
  EXPECT_LE(below, kJobs / 100 + 20);
  EXPECT_GT(below, 0);
}

TEST(CollectiveMatchTest, LastIsTheMemberOfTheShortestDuration) {
  const auto matched = MatchCollectives(MakeJob(3, {1, 0}, 100), StepId(0), StepId(9));
  ASSERT_THAT(matched, SizeIs(2));
  for (const MatchedCollective& collective : matched) {
    EXPECT_EQ(collective.Last().rank, Rank(collective.sequence == 0 ? 1 : 0));
  }
  EXPECT_THAT(MatchCollectives(MakeJob(3, {1}, 100), StepId(2), StepId(9)), IsEmpty());
}

}  // namespace
}  // namespace flare::diag
