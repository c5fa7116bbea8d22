// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/report_view.h"

#include <gtest/gtest.h>

namespace flare::diag {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

OpenCall Call(EventKind kind, bool main_thread, uint64_t since_unix_ns) {
  OpenCall call;
  call.kind = kind;
  call.main_thread = main_thread;
  call.since_unix_ns = since_unix_ns;
  return call;
}

RankRecord RankWithSteps(std::initializer_list<uint64_t> seconds) {
  RankRecord rank;
  for (uint64_t s : seconds) {
    RankStep step;
    step.step = StepId(rank.steps.size());
    step.duration_ns = s * kSecond;
    rank.steps.push_back(step);
  }
  return rank;
}

TEST(ReportViewTest, InnermostCallOfTheMainThreadIsWhatARankDoes) {
  RankState state;
  state.at_unix_ns = 20 * kSecond;
  state.communicators.push_back({CommId(9), "default_pg", 0, 4, 0, 0, {}});
  OpenCall reduce = Call(EventKind::kCollective, false, 2 * kSecond);
  reduce.operation = Operation::kAllReduce;
  reduce.sequence = 118;
  reduce.communicator = CommId(9);
  state.open_calls = {reduce, Call(EventKind::kStep, true, 0)};
  EXPECT_EQ(DoingInWords(state), "all-reduce 118 in default_pg, for 18 s");
  state.open_calls.push_back(Call(EventKind::kBackward, true, kSecond));
  state.open_calls.push_back(Call(EventKind::kDataLoad, true, 8 * kSecond));
  EXPECT_EQ(DoingInWords(state), "wait for the next batch of data, for 12 s");
}

TEST(ReportViewTest, WithoutACallThePythonFrameIs) {
  RankState state;
  EXPECT_EQ(DoingInWords(state), "");
  state.process.python_stack = {{"spin", "train.py", 33}, {"main", "train.py", 90}};
  EXPECT_EQ(DoingInWords(state), "spin (train.py:33)");
}

TEST(ReportViewTest, PeerAndUserFunctionAreNamed) {
  RankState state;
  state.open_calls = {Call(EventKind::kRecv, true, 0)};
  state.open_calls[0].peer = 3;
  EXPECT_EQ(DoingInWords(state), "receive from 3");
  state.open_calls = {Call(EventKind::kUserCall, true, 0)};
  state.open_calls[0].name = "Trainer.evaluate";
  EXPECT_EQ(DoingInWords(state), "user function Trainer.evaluate");
}

TEST(ReportViewTest, RankStatesInOrderOfWhatIsSurest) {
  RankRecord rank;
  EXPECT_EQ(SummarizeRank(rank, false).state(), "running");
  rank.state.process.run_state = 'T';
  EXPECT_EQ(SummarizeRank(rank, false).state(), "stopped");
  EXPECT_EQ(SummarizeRank(rank, true).state(), "lost");
  rank.state.process.life = Life::kDied;
  EXPECT_EQ(SummarizeRank(rank, true).state(), "died");
  rank.state.process.life = Life::kExited;
  rank.state.process.exception_type = "ValueError";
  rank.state.process.exception_text = "no";
  EXPECT_EQ(SummarizeRank(rank, false).state(), "exited");
  EXPECT_EQ(SummarizeRank(rank, false).exception(), "ValueError: no");
}

TEST(ReportViewTest, JobCountsTheSlowestRankAndTheMedianOfAll) {
  Job job;
  job.world_size = 3;
  job.ranks[Rank(0)] = RankWithSteps({1, 2, 3});
  job.ranks[Rank(1)] = RankWithSteps({4, 5});
  job.ranks[Rank(0)].node = "b";
  job.ranks[Rank(1)].node = "a";
  const v1::JobSummary summary = SummarizeJob(job);
  EXPECT_EQ(summary.steps(), 2u);
  EXPECT_EQ(summary.step_seconds_median(), 3);
  EXPECT_EQ(summary.ranks_seen(), 2u);
  ASSERT_EQ(summary.nodes_size(), 2);
  EXPECT_EQ(summary.nodes(0), "a");
}

TEST(ReportViewTest, JobWithoutRanksHasNoSteps) {
  EXPECT_EQ(SummarizeJob(Job()).steps(), 0u);
  EXPECT_EQ(SummarizeJob(Job()).step_seconds_median(), 0);
}

}  // namespace
}  // namespace flare::diag
