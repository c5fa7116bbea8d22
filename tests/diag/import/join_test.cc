// SPDX-License-Identifier: Apache-2.0
#include "diag/import/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/diag/import/fragments.h"

namespace flare::import {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<uint32_t> Ranks(const JoinedJob& joined) {
  std::vector<uint32_t> ranks;
  for (const auto& [rank, record] : joined.job.ranks) ranks.push_back(rank.value);
  return ranks;
}

std::vector<std::string> Labels(const std::vector<JoinedJob>& jobs) {
  std::vector<std::string> labels;
  for (const JoinedJob& job : jobs) labels.push_back(job.label);
  return labels;
}

TEST(JoinTest, FilesOfRanksBecomeOneJob) {
  std::vector<Fragment> files;
  for (uint32_t r = 0; r < 4; ++r) {
    files.push_back(Trace("run/" + std::to_string(r), r));
    files.back().ranks[0].world_size = 8;
    files.back().framework = "torch 2.5";
  }
  const auto jobs = JoinFragments(files);
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_THAT(Ranks(jobs[0]), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(jobs[0].job.world_size, 8u);
  EXPECT_EQ(jobs[0].label, "");
  EXPECT_THAT(jobs[0].notes, IsEmpty());
  EXPECT_TRUE(jobs[0].absolute_time);
  EXPECT_EQ(jobs[0].job.first_seen_unix_ns, At(0));
  EXPECT_EQ(jobs[0].now_unix_ns, At(2));
  EXPECT_EQ(jobs[0].job.ranks.at(Rank(2)).framework, "torch 2.5");
  EXPECT_FALSE(jobs[0].job.ended);
}

TEST(JoinTest, TraceDumpAndLogOfOneJobBelongTogether) {
  Fragment stacks = File("stacks.txt", std::nullopt, "stacks");
  stacks.ranks[0].record.pid = 77;
  stacks.ranks[0].record.state.process.life = diag::Life::kRunning;
  stacks.ranks[0].record.state.process.threads.resize(1);
  Fragment trace = Trace("0.json", 0);
  trace.ranks[0].record.pid = 77;
  const auto jobs = JoinFragments({stacks, trace, Dump("dump0", 0, 10, 5), Log("dmesg", 9)});
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_THAT(Ranks(jobs[0]), ElementsAre(0));
  const diag::RankRecord& rank = jobs[0].job.ranks.at(Rank(0));
  EXPECT_THAT(rank.steps, SizeIs(2));
  EXPECT_THAT(rank.state.open_calls, SizeIs(1));
  EXPECT_THAT(rank.state.process.threads, SizeIs(1));
  EXPECT_THAT(jobs[0].job.signals, SizeIs(1));
  EXPECT_EQ(jobs[0].now_unix_ns, At(10));
}

TEST(JoinTest, IdentitiesAreNeverJoined) {
  std::vector<Fragment> files = {Trace("x/a0", 0), Trace("x/a1", 1), Trace("x/b0", 0),
                                 Log("x/dmesg", 0)};
  files[0].identity = files[1].identity = "job-a";
  files[2].identity = "job-b";
  const auto jobs = JoinFragments(files);
  ASSERT_THAT(Labels(jobs), ElementsAre("job-a", "job-b", "dmesg"));
  EXPECT_THAT(Ranks(jobs[0]), ElementsAre(0, 1));
  EXPECT_THAT(jobs[1].notes, Contains(AllOf(HasSubstr("hold 3 jobs"),
                                            HasSubstr("the files name different jobs"))));
  EXPECT_THAT(jobs[2].job.signals, SizeIs(1));
}

TEST(JoinTest, RankTwiceWithDifferentContentsIsSetApartAndSaid) {
  Fragment again = Trace("run/3-again", 3);
  again.ranks[0].record.steps[0].duration_ns = 5;
  const auto jobs = JoinFragments({Trace("run/2", 2), Trace("run/3", 3), again, Trace("run/4", 4)});
  ASSERT_THAT(jobs, SizeIs(2));
  EXPECT_THAT(Ranks(jobs[0]), ElementsAre(2, 3, 4));
  EXPECT_THAT(Ranks(jobs[1]), ElementsAre(3));
  for (const JoinedJob& job : jobs) {
    EXPECT_THAT(job.notes, Contains(HasSubstr("rank 3 comes twice with different contents, in 3 "
                                              "and in 3-again")));
  }
}

TEST(JoinTest, RunsInFoldersAreTheirJobs) {
  std::vector<Fragment> files;
  for (const char* folder : {"runs/before", "runs/after"}) {
    for (uint32_t r = 0; r < 2; ++r) {
      files.push_back(Trace(std::string(folder) + "/" + std::to_string(r), r, folder[5] == 'b'));
    }
    files.push_back(Log(std::string(folder) + "/dmesg", 0));
  }
  const auto jobs = JoinFragments(files);
  ASSERT_THAT(Labels(jobs), ElementsAre("before", "after"));
  for (const JoinedJob& job : jobs) {
    EXPECT_THAT(Ranks(job), ElementsAre(0, 1));
    EXPECT_THAT(job.job.signals, SizeIs(1));
    EXPECT_THAT(job.notes, Contains(HasSubstr("each folder holds a run of its own")));
  }
}

TEST(JoinTest, DifferentWorldSizesAreDifferentJobs) {
  std::vector<Fragment> files = {Trace("0of2", 0), Trace("1of2", 1), Trace("0of16", 0)};
  files[0].ranks[0].world_size = files[1].ranks[0].world_size = 2;
  files[2].ranks[0].world_size = 16;
  const auto jobs = JoinFragments(files);
  ASSERT_THAT(jobs, SizeIs(2));
  EXPECT_THAT(Ranks(jobs[0]), ElementsAre(0, 1));
  EXPECT_EQ(jobs[1].job.world_size, 16u);
}

TEST(JoinTest, TracesFarApartInTimeAreDifferentRunsUnlessOneProcessIsInBoth) {
  std::vector<Fragment> files = {Trace("0", 0), Trace("1", 1, 86400 * 3)};
  EXPECT_THAT(JoinFragments(files), SizeIs(2));
  Fragment later = File("0-later", 0);
  AddSteps(&later, 100, 2, 7200);
  files = {Trace("0", 0), later};
  EXPECT_THAT(JoinFragments(files), SizeIs(2));
  files[0].ranks[0].record.pid = files[1].ranks[0].record.pid = 9;
  const auto jobs = JoinFragments(files);
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_THAT(jobs[0].job.ranks.at(Rank(0)).steps, SizeIs(4));
}

TEST(JoinTest, CopyOfAFileIsLeftOut) {
  const auto jobs = JoinFragments({Trace("a", 0), Trace("copy of a", 0)});
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_THAT(jobs[0].job.ranks.at(Rank(0)).steps, SizeIs(2));
  EXPECT_THAT(jobs[0].notes, ElementsAre("copy of a: a copy of another file is left out"));
}

TEST(JoinTest, ProfilesThatDoNotTellTheirRankAreNotTakenForRanksOfOneJob) {
  const auto jobs =
      JoinFragments({Trace("workers_0", std::nullopt), Trace("workers_4", std::nullopt, 9)});
  ASSERT_THAT(jobs, SizeIs(2));
  EXPECT_THAT(jobs[0].notes, Contains(HasSubstr("taken for rank 0")));
}

TEST(JoinTest, ProcessesWithoutRankAreNumberedAndSaid) {
  Fragment stacks = File("stacks", std::nullopt, "stacks");
  for (int64_t pid : {11, 12, 13}) {
    RankFragment& rank = pid == 11 ? stacks.ranks[0] : stacks.ranks.emplace_back();
    rank.record.pid = pid;
    rank.record.state.process.life = diag::Life::kRunning;
    rank.record.state.process.threads.resize(1);
  }
  Fragment trace = Trace("trace", 1);
  trace.ranks[0].record.pid = 12;
  const auto jobs = JoinFragments({stacks, trace});
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_THAT(Ranks(jobs[0]), ElementsAre(0, 1, 2));
  EXPECT_EQ(jobs[0].job.ranks.at(Rank(1)).pid, 12);
  EXPECT_THAT(jobs[0].job.ranks.at(Rank(1)).steps, SizeIs(2));
  EXPECT_THAT(jobs[0].notes, Contains(HasSubstr("2 processes do not say which rank they are")));
}

TEST(JoinTest, StepsOfTwoToolsAreNotMixed) {
  Fragment log = File("train.log", 0, "step-log");
  for (uint64_t i = 0; i < 500; ++i) {
    diag::RankStep step;
    step.step = StepId(i);
    step.duration_ns = kSecond;
    KeepStep(step, &log.ranks[0]);
  }
  const auto jobs = JoinFragments({log, Trace("0.json", 0)});
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_THAT(jobs[0].job.ranks.at(Rank(0)).steps, SizeIs(2));
  EXPECT_THAT(jobs[0].notes, Contains(HasSubstr("those of trace are used")));
}

TEST(JoinTest, LongLogIsKeptWholeUpToTheLimitAndThenItsEnd) {
  Fragment log = File("train.log", 0, "step-log");
  for (uint64_t i = 0; i < kMostSteps + 7; ++i) {
    diag::RankStep step;
    step.step = StepId(i);
    step.duration_ns = kSecond;
    KeepStep(step, &log.ranks[0]);
  }
  const auto jobs = JoinFragments({log});
  const auto& steps = jobs[0].job.ranks.at(Rank(0)).steps;
  EXPECT_EQ(steps.size(), kMostSteps);
  EXPECT_GT(kMostSteps, diag::kKeptSteps);
  EXPECT_EQ(steps.back().step, StepId(kMostSteps + 6));
  EXPECT_THAT(jobs[0].notes, ElementsAre(HasSubstr("the first 7 steps of all ranks")));
}

TEST(JoinTest, LogsAloneAreAJobWithoutRanks) {
  const auto jobs = JoinFragments({Log("a", 5), Log("b", 3)});
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_THAT(jobs[0].job.ranks, IsEmpty());
  EXPECT_EQ(jobs[0].job.signals.front().at_unix_ns, At(3));
  EXPECT_EQ(jobs[0].now_unix_ns, At(5));
  EXPECT_TRUE(jobs[0].absolute_time);
}

TEST(JoinTest, NothingIsNoJob) { EXPECT_THAT(JoinFragments({}), IsEmpty()); }

}  // namespace
}  // namespace flare::import
