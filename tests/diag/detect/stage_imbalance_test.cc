// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/stage_imbalance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace flare::diag {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kMs = 1'000'000;

// Two ranks in each of four stages; steps of 1 s, of which `own_ms` by rank is its own time.
Job MakeJob(uint32_t steps, const std::vector<uint64_t>& own_ms) {
  Job job;
  for (uint32_t r = 0; r < 8; ++r) {
    RankRecord& record = job.ranks[Rank(r)];
    CommunicatorState& state = record.state.communicators.emplace_back();
    state.communicator = CommId(r / 2 + 1);
    state.name = "pipeline stage " + std::to_string(r / 2);
    for (uint32_t s = 0; s < steps; ++s) {
      RankStep& step = record.steps.emplace_back();
      step.step = StepId(s + 1);
      step.duration_ns = 1000 * kMs;
      step.communication_ns = (1000 - own_ms[r]) * kMs;
    }
  }
  return job;
}

TEST(StageImbalanceTest, AStageThatIsHeavierOnAllItsRanksIsNamed) {
  const auto verdicts =
      DetectStageImbalance(MakeJob(20, {400, 400, 410, 400, 400, 400, 600, 610}), 0);
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].cause, "load_imbalance");
  EXPECT_THAT(verdicts[0].ranks, ElementsAre(Rank(6), Rank(7)));
  EXPECT_THAT(verdicts[0].summary, HasSubstr("Pipeline stage 3"));
}

TEST(StageImbalanceTest, ASlowRankIsNoHeavyStage) {
  EXPECT_THAT(DetectStageImbalance(MakeJob(20, {400, 400, 400, 400, 400, 400, 400, 900}), 0),
              IsEmpty());
}

TEST(StageImbalanceTest, BalancedStagesAreHealthy) {
  EXPECT_THAT(DetectStageImbalance(MakeJob(20, {400, 410, 405, 400, 400, 415, 430, 435}), 0),
              IsEmpty());
}

TEST(StageImbalanceTest, FewStepsOrAStageOfOneRankAreTooLittle) {
  EXPECT_THAT(DetectStageImbalance(MakeJob(7, {400, 400, 400, 400, 400, 400, 600, 600}), 0),
              IsEmpty());
  Job job = MakeJob(20, {400, 400, 400, 400, 400, 400, 600, 600});
  job.ranks.erase(Rank(7));
  EXPECT_THAT(DetectStageImbalance(job, 0), IsEmpty());
}

TEST(StageImbalanceTest, OtherGroupsAreNoStages) {
  Job job = MakeJob(20, {400, 400, 400, 400, 400, 400, 600, 600});
  for (auto& [rank, record] : job.ranks) record.state.communicators[0].name = "default_pg";
  EXPECT_THAT(DetectStageImbalance(job, 0), IsEmpty());
}

}  // namespace
}  // namespace flare::diag
