// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "diag/import/importer.h"
#include "diag/import/importers.h"
#include "tests/diag/import/recorded.h"

namespace flare::import {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

std::string Operation(const std::string& name, int pid, int tid, int step, int begin_us, int us) {
  return R"({"name":")" + name + R"(","ph":"X","pid":)" + std::to_string(pid) + R"(,"tid":)" +
         std::to_string(tid) + R"(,"ts":)" + std::to_string(begin_us) + R"(,"dur":)" +
         std::to_string(us) + R"(,"args":{"step":)" + std::to_string(step) + "}}";
}

std::string Lane(int pid, int tid, const std::string& name) {
  return R"({"name":"thread_name","ph":"M","pid":)" + std::to_string(pid) + R"(,"tid":)" +
         std::to_string(tid) + R"(,"args":{"name":")" + name + "\"}}";
}

Fragment Read(const std::string& text) {
  const auto input = Input::FromMemory("t", text);
  Fragment fragment;
  const Status status = ReadOperationTimeline(input.get(), &fragment);
  EXPECT_TRUE(status.ok()) << status.message();
  return fragment;
}

TEST(OperationTimelineTest, OwnTimeIsTheComputeLaneAndAllElseIsWaiting) {
  const Fragment fragment = Read("[" + Operation("forward-compute", 0, 0, 5, 100, 30) + "," +
                                 Operation("backward-compute", 0, 0, 5, 200, 40) + "," +
                                 Operation("backward-recv", 0, 1, 5, 130, 70) + "," +
                                 Operation("optimizer", 0, 0, 5, 260, 10) + "," +
                                 Lane(0, 0, "PP rank 0, TP rank 0, compute") + "," +
                                 Lane(0, 1, "PP rank 0, TP rank 0, pp-comm") + "]");
  ASSERT_THAT(fragment.ranks, SizeIs(1));
  const diag::RankStep& step = fragment.ranks[0].record.steps.at(0);
  EXPECT_EQ(step.step, StepId(5));
  EXPECT_EQ(step.duration_ns, 170'000u);
  EXPECT_EQ(step.communication_ns, 170'000u - 80'000u);
  EXPECT_FALSE(fragment.absolute_time);
}

TEST(OperationTimelineTest, WorkersAreNumberedByStageAndDataParallelRank) {
  std::string text = "[";
  for (int data_rank = 0; data_rank < 2; ++data_rank) {
    for (int stage = 0; stage < 3; ++stage) {
      text +=
          Operation("forward-compute", data_rank, stage * 10, 1, 0, 100 * stage + data_rank + 1) +
          ",";
      text +=
          Lane(data_rank, stage * 10, "PP rank " + std::to_string(stage) + ", TP rank 0, compute") +
          ",";
    }
  }
  const Fragment fragment = Read(text + "{}]");
  ASSERT_THAT(fragment.ranks, SizeIs(6));
  for (const RankFragment& rank : fragment.ranks) {
    const uint32_t data_rank = rank.rank->value % 2, stage = rank.rank->value / 2;
    EXPECT_EQ(rank.record.steps.at(0).duration_ns, (100 * stage + data_rank + 1) * 1000);
    EXPECT_EQ(rank.record.state.communicators.at(0).name,
              "pipeline stage " + std::to_string(stage));
    EXPECT_EQ(rank.world_size, 6u);
  }
}

TEST(OperationTimelineTest, LanesWithoutNamesAreRefused) {
  const auto input = Input::FromMemory("t", "[" + Operation("forward-compute", 0, 0, 1, 0, 5));
  Fragment fragment;
  EXPECT_THAT(ReadOperationTimeline(input.get(), &fragment).message(),
              HasSubstr("named at the end"));
}

TEST(OperationTimelineTest, BrokenOperationsAreLeftOutAndCounted) {
  const Fragment fragment =
      Read("[" + Operation("forward-compute", 0, 0, 1, 0, 5) + "," +
           Operation("forward-compute", 0, 0, 1, 0, -5) + "," +
           Operation("forward-compute", 0, 0, -1, 0, 5) + "," +
           Operation("forward-compute", 0, 9, 1, 0, 5) + R"(,{"ph":"X","name":"x-compute"},)" +
           Lane(0, 0, "PP rank 0, TP rank 0, compute") + "]");
  EXPECT_THAT(fragment.notes, testing::Contains(HasSubstr("4 operations left out")));
}

// Published: AR has one slow worker (slowdown 1.973 of data-parallel rank 0 against 1.011 of the
// others, 1.979 of stage 0); ST a slow last stage (1.232).
TEST(OperationTimelineTest, RecordedJobsShowTheirStragglers) {
  SKIP_WITHOUT_RECORDED_FILES();
  const auto compute_ms = [](const std::string& name) {
    const Result<Fragment> fragment = ImportFile(Recorded("straggler-analysis/" + name), "");
    EXPECT_TRUE(fragment.ok()) << fragment.status().message();
    EXPECT_EQ(fragment->kind, "operation-timeline");
    std::map<uint32_t, double> own;
    for (const RankFragment& rank : fragment->ranks) {
      double sum = 0;
      for (const diag::RankStep& step : rank.record.steps) {
        sum += static_cast<double>(step.duration_ns - step.communication_ns) * 1e-6;
      }
      own[rank.rank->value] = sum / static_cast<double>(rank.record.steps.size());
    }
    return own;
  };
  std::map<uint32_t, double> slow_worker = compute_ms("timeline-AR.json.gz");
  ASSERT_THAT(slow_worker, SizeIs(16));
  for (const auto& [worker, ms] : slow_worker) {
    if (worker == 0) continue;
    EXPECT_LT(ms, slow_worker[0] / 1.9) << worker;
  }
  std::map<uint32_t, double> slow_stage = compute_ms("timeline-ST.json.gz");
  ASSERT_THAT(slow_stage, SizeIs(8));
  for (uint32_t worker = 0; worker < 6; ++worker) {
    EXPECT_LT(slow_stage[worker], slow_stage[6] / 1.5);
    EXPECT_LT(slow_stage[worker], slow_stage[7] / 1.5);
  }
  EXPECT_NEAR(slow_stage[6] / slow_stage[7], 1, 0.02);
}

}  // namespace
}  // namespace flare::import
