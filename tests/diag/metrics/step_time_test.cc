// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/step_time.h"

#include <gtest/gtest.h>

namespace flare::diag {
namespace {

RankRecord RankWithSteps(uint32_t rank, const std::vector<uint64_t>& durations_ms) {
  RankRecord record;
  record.rank = Rank(rank);
  for (size_t i = 0; i < durations_ms.size(); ++i) {
    RankStep step;
    step.step = StepId(i);
    step.duration_ns = durations_ms[i] * 1'000'000;
    record.steps.push_back(step);
  }
  return record;
}

TEST(StepTimeTest, LeavesTheFirstStepOut) {
  const StepTime time = StepTimeOf(RankWithSteps(0, {60'000, 100, 110, 120}));
  EXPECT_EQ(time.steps, 3u);
  EXPECT_EQ(time.median_ns, 110'000'000u);
  EXPECT_EQ(time.slow_ns, 120'000'000u);
}

TEST(StepTimeTest, KeepsAnOnlyFirstStep) {
  EXPECT_EQ(StepTimeOf(RankWithSteps(0, {500})).median_ns, 500'000'000u);
}

TEST(StepTimeTest, NothingKnownIsZero) {
  EXPECT_EQ(StepTimeOf(RankRecord{}).steps, 0u);
  EXPECT_EQ(StepTimeOf(Job{}).slow_ns, 0u);
}

TEST(StepTimeTest, LooksAtTheLastStepsOnly) {
  std::vector<uint64_t> durations(kStepTimeWindow + 100, 1000);
  std::fill(durations.end() - static_cast<ptrdiff_t>(kStepTimeWindow), durations.end(), 10);
  EXPECT_EQ(StepTimeOf(RankWithSteps(0, durations)).slow_ns, 10'000'000u);
}

TEST(StepTimeTest, OneRareLongStepIsNotTheSlowStepOfAJob) {
  Job job;
  for (uint32_t r = 0; r < 4; ++r) {
    std::vector<uint64_t> durations(60, 100);
    durations[30] = 20'000;
    job.ranks[Rank(r)] = RankWithSteps(r, durations);
  }
  const StepTime time = StepTimeOf(job);
  EXPECT_EQ(time.steps, 4u * 59);
  EXPECT_EQ(time.slow_ns, 100'000'000u);
  EXPECT_EQ(time.spread_ns, 0u);
}

TEST(StepTimeTest, ManyRanksAreSampled) {
  Job job;
  for (uint32_t r = 0; r < 1000; ++r) job.ranks[Rank(r)] = RankWithSteps(r, {1, 2, 3});
  EXPECT_LE(StepTimeOf(job).steps, 2 * kStepTimeRanks);
  EXPECT_GT(StepTimeOf(job).steps, kStepTimeRanks);
}

}  // namespace
}  // namespace flare::diag
