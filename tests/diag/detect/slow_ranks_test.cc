// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/slow_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace flare::diag {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kNow = 1'800'000'000'000'000'000;

// Ranks whose steps of about a second are all that is known of them.
Job JobOf(uint32_t ranks, uint64_t steps, bool recorded,
          const std::function<double(uint32_t rank, uint64_t step)>& factor) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(0, 0.03);
  Job job;
  job.recorded = recorded;
  for (uint32_t r = 0; r < ranks; ++r) {
    RankRecord& record = job.ranks[Rank(r)];
    for (uint64_t s = 1; s <= steps; ++s) {
      RankStep step;
      step.step = StepId(s);
      step.start_unix_ns = kNow - (steps - s + 1) * 1'000'000'000;
      step.duration_ns = static_cast<uint64_t>(1e9 * factor(r, s) * std::exp(normal(random)));
      record.steps.push_back(step);
    }
  }
  return job;
}

std::vector<Verdict> Detect(const Job& job) { return DetectSlowRanks(job, kNow); }

TEST(SlowRanksTest, RankThatFellBehindIsNamed) {
  const Job job = JobOf(8, 200, false, [](uint32_t rank, uint64_t step) {
    return rank == 5 && step > 120 ? 1.3 : 1.0;
  });
  const std::vector<Verdict> verdicts = Detect(job);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_THAT(verdicts[0].ranks, ElementsAre(Rank(5)));
  EXPECT_TRUE(verdicts[0].conclusive);
  EXPECT_THAT(verdicts[0].summary, HasSubstr("since step 121"));
  EXPECT_NEAR(verdicts[0].lost_share, (1 - 1 / 1.3) / 8, 0.01);
}

TEST(SlowRanksTest, RanksThatFellBehindTogetherAreOneFinding) {
  const Job job = JobOf(8, 200, true, [](uint32_t rank, uint64_t step) {
    return (rank == 1 || rank == 6) && step > 120 ? 1.3 + 0.1 * rank : 1.0;
  });
  const std::vector<Verdict> verdicts = Detect(job);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_THAT(verdicts[0].ranks, ElementsAre(Rank(1), Rank(6)));
}

TEST(SlowRanksTest, WhatSlowsAllIsNobodysFault) {
  EXPECT_THAT(
      Detect(JobOf(8, 200, true, [](uint32_t, uint64_t step) { return step > 120 ? 1.5 : 1.0; })),
      IsEmpty());
  // Three of four became faster: the one that did not is not slow.
  EXPECT_THAT(Detect(JobOf(4, 200, true,
                           [](uint32_t rank, uint64_t step) {
                             return rank != 2 && step > 120 ? 0.7 : 1.0;
                           })),
              IsEmpty());
}

TEST(SlowRanksTest, PastTroubleIsToldOfRecordedJobsOnly) {
  const auto factor = [](uint32_t rank, uint64_t step) {
    return rank == 3 && step > 100 && step <= 130 ? 1.6 : 1.0;
  };
  EXPECT_THAT(Detect(JobOf(8, 250, false, factor)), IsEmpty());
  const std::vector<Verdict> verdicts = Detect(JobOf(8, 250, true, factor));
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_THAT(verdicts[0].summary, AllOf(HasSubstr("from step 101 to 130"), HasSubstr("over")));
}

TEST(SlowRanksTest, SteadyDifferenceIsASuspicionWhereItIsWide) {
  const auto ratio = [](double slow) {
    return [slow](uint32_t rank, uint64_t) { return rank >= 6 ? slow : 1.0; };
  };
  EXPECT_THAT(Detect(JobOf(8, 100, true, ratio(1.3))), IsEmpty());
  EXPECT_THAT(Detect(JobOf(8, 100, false, ratio(2))), IsEmpty());
  const std::vector<Verdict> verdicts = Detect(JobOf(8, 100, true, ratio(2)));
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_THAT(verdicts[0].ranks, ElementsAre(Rank(6), Rank(7)));
  EXPECT_FALSE(verdicts[0].conclusive);
  EXPECT_EQ(verdicts[0].severity, "low");
}

TEST(SlowRanksTest, NoiseAndSingleLongStepsNameNobody) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (const bool recorded : {false, true}) {
    const Job job = JobOf(16, 256, recorded, [&](uint32_t, uint64_t) {
      return uniform(random) < 0.1 ? 3.0 : 1.0 + 0.2 * uniform(random);
    });
    EXPECT_THAT(Detect(job), IsEmpty());
  }
}

TEST(SlowRanksTest, JobsWithCommunicationAndSmallOnesAreLeftToOthers) {
  const auto factor = [](uint32_t rank, uint64_t step) {
    return rank == 1 && step > 120 ? 2.0 : 1.0;
  };
  Job job = JobOf(8, 200, true, factor);
  job.ranks.at(Rank(0)).steps[7].communication_ns = 5;
  EXPECT_THAT(Detect(job), IsEmpty());
  EXPECT_THAT(Detect(JobOf(3, 200, true, factor)), IsEmpty());
  EXPECT_THAT(Detect(JobOf(8, 40, true, factor)), IsEmpty());
  EXPECT_THAT(DetectSlowRanks(JobOf(8, 200, false, factor), kNow + 100'000'000'000), IsEmpty());
}

TEST(SlowRanksTest, StepsThatSomeRanksDoNotTellAreNoGap) {
  Job job = JobOf(8, 200, true,
                  [](uint32_t rank, uint64_t step) { return rank == 4 && step > 120 ? 1.4 : 1.0; });
  auto& steps = job.ranks.at(Rank(4)).steps;
  steps.erase(steps.begin() + 10, steps.begin() + 40);
  job.ranks.at(Rank(7)).steps.clear();
  const std::vector<Verdict> verdicts = Detect(job);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_THAT(verdicts[0].ranks, ElementsAre(Rank(4)));
}

}  // namespace
}  // namespace flare::diag
