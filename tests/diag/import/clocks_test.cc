// SPDX-License-Identifier: Apache-2.0
#include "diag/import/clocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/diag/import/fragments.h"

namespace flare::import {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr CommId kGroup{7};

// A trace whose clock is `ahead_s` seconds ahead; its collectives end `late_ns[i % size]` late.
Fragment WithCollectives(uint32_t rank, double ahead_s, std::vector<int64_t> late_ns = {0}) {
  Fragment file = Trace("rank" + std::to_string(rank), rank, ahead_s);
  for (uint64_t i = 0; i < 40; ++i) {
    const auto late = static_cast<uint64_t>(late_ns[i % late_ns.size()]);
    file.ranks[0].collective_ends.push_back({kGroup, i, At(ahead_s + 0.05 * double(i)) + late});
  }
  file.ranks[0].record.steps[0].communicators.resize(1);
  return file;
}

uint64_t Begin(const Fragment& file) { return file.ranks[0].record.steps[0].start_unix_ns; }

TEST(ClocksTest, ClocksThatAgreeAreLeftAlone) {
  std::vector<Fragment> files = {WithCollectives(0, 0), WithCollectives(1, 0, {3000, 30'000})};
  std::vector<std::string> notes;
  EXPECT_TRUE(AlignClocks(&files, &notes));
  EXPECT_EQ(Begin(files[1]), At(0));
  EXPECT_THAT(notes, IsEmpty());
}

TEST(ClocksTest, ClockThatIsAheadIsMovedBackAndSaid) {
  std::vector<Fragment> files = {WithCollectives(0, 0), WithCollectives(1, 2.5)};
  std::vector<std::string> notes;
  AlignClocks(&files, &notes);
  EXPECT_EQ(Begin(files[1]), At(0));
  EXPECT_THAT(notes,
              ElementsAre("rank 1: its clock was 2500.0 ms ahead; aligned by 40 collectives"));
}

TEST(ClocksTest, RanksHangTogetherOverOthers) {
  std::vector<Fragment> files = {WithCollectives(0, 0), WithCollectives(1, 5),
                                 WithCollectives(2, 1)};
  // 0 and 1 share no group; 2 is in both.
  for (CollectiveEnd& end : files[1].ranks[0].collective_ends) end.communicator = CommId(8);
  auto& between = files[2].ranks[0].collective_ends;
  for (size_t i = between.size() / 2; i < between.size(); ++i) between[i].communicator = CommId(8);
  std::vector<std::string> notes;
  AlignClocks(&files, &notes);
  for (const Fragment& file : files) EXPECT_EQ(Begin(file), At(0));
}

TEST(ClocksTest, CollectivesThatDoNotEndTogetherAreNotCompared) {
  std::vector<Fragment> files = {WithCollectives(0, 0),
                                 WithCollectives(1, 0, {0, 40'000'000, 90'000'000, 20'000'000})};
  std::vector<std::string> notes;
  AlignClocks(&files, &notes);
  EXPECT_THAT(files[1].ranks[0].record.steps[0].communicators, IsEmpty());
  EXPECT_THAT(files[0].ranks[0].record.steps[0].communicators, testing::SizeIs(1));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("rank 1: its collectives do not end with those")));
}

TEST(ClocksTest, TimesWithoutOriginTakeItFromTheOthers) {
  std::vector<Fragment> files = {WithCollectives(0, 0), WithCollectives(1, -1e9)};
  files[1].absolute_time = false;
  std::vector<std::string> notes;
  EXPECT_TRUE(AlignClocks(&files, &notes));
  EXPECT_EQ(Begin(files[1]), At(0));
}

TEST(ClocksTest, TimesWithoutAnyOriginStayTogether) {
  std::vector<Fragment> files = {WithCollectives(0, -1e9), WithCollectives(1, -2e8)};
  files[0].absolute_time = files[1].absolute_time = false;
  files[1].ranks[0].record.steps[1].duration_ns /= 2;
  std::vector<std::string> notes;
  EXPECT_FALSE(AlignClocks(&files, &notes));
  EXPECT_EQ(Begin(files[0]), Begin(files[1]));
  EXPECT_EQ(Begin(files[0]) + 2 * kSecond, kNowhereNs);
}

TEST(ClocksTest, FilesThatShareNothingAreLaidEndToEnd) {
  std::vector<Fragment> files = {Trace("a", 0), Trace("b", 1, -1000)};
  files[1].absolute_time = false;
  files[1].ranks[0].record.steps[1].duration_ns = kSecond / 2;
  std::vector<std::string> notes;
  EXPECT_TRUE(AlignClocks(&files, &notes));
  EXPECT_EQ(Begin(files[1]), At(0.5));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("laid so that they end together")));
}

diag::Job JobOf(const std::vector<Fragment>& files) {
  diag::Job job;
  for (const Fragment& file : files) job.ranks[*file.ranks[0].rank] = file.ranks[0].record;
  return job;
}

uint64_t WaitOf(const diag::Job& job, uint32_t rank) {
  const diag::RankState& state = job.ranks.at(Rank(rank)).state;
  return (state.at_unix_ns - state.open_calls.at(0).since_unix_ns) / kSecond;
}

TEST(MomentTest, StatesOfOneLookStay) {
  diag::Job job = JobOf({Dump("a", 0, 100, 50), Dump("b", 1, 104, 52)});
  std::vector<std::string> notes;
  EXPECT_EQ(SettleMoment(&job, &notes), At(104));
  EXPECT_EQ(job.ranks.at(Rank(0)).state.at_unix_ns, At(100));
  EXPECT_THAT(notes, IsEmpty());
}

TEST(MomentTest, DumpsTakenOverMinutesAreOneMomentWhenNothingMoved) {
  diag::Job job = JobOf({Dump("a", 0, 100, 50), Dump("b", 1, 400, 350)});
  std::vector<std::string> notes;
  EXPECT_EQ(SettleMoment(&job, &notes), At(400));
  EXPECT_EQ(job.ranks.at(Rank(0)).state.at_unix_ns, At(400));
  EXPECT_EQ(WaitOf(job, 0), 50u);  // no longer than was seen
  EXPECT_EQ(WaitOf(job, 1), 350u);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("taken over 300 s; they are read as one moment")));
}

TEST(MomentTest, RankThatMovedBetweenDumpsIsNotKnown) {
  diag::Job job = JobOf({Dump("a", 0, 100, 50), Dump("b", 1, 400, 2)});
  std::vector<std::string> notes;
  SettleMoment(&job, &notes);
  EXPECT_EQ(job.ranks.at(Rank(1)).state.at_unix_ns, 0u);
  EXPECT_THAT(job.ranks.at(Rank(1)).state.open_calls, IsEmpty());
  EXPECT_THAT(notes, testing::Contains(HasSubstr("1 rank moved on between the dumps")));
}

TEST(MomentTest, DumpBeforeTheLastTracedStepSaysNothing) {
  diag::Job job = JobOf({Dump("a", 0, 100, 50), Trace("b", 1, 500)});
  job.ranks.at(Rank(0)).steps = job.ranks.at(Rank(1)).steps;
  std::vector<std::string> notes;
  EXPECT_EQ(SettleMoment(&job, &notes), At(502));
  EXPECT_EQ(job.ranks.at(Rank(0)).state.at_unix_ns, 0u);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("before their last step")));
}

TEST(MomentTest, DumpWithoutTimeIsAtTheEndOfWhatIsKnown) {
  diag::Job job = JobOf({Dump("a", 0, 100, 50), Dump("b", 1, 100, 50)});
  job.ranks.at(Rank(0)).state.at_unix_ns = 0;
  std::vector<std::string> notes;
  EXPECT_EQ(SettleMoment(&job, &notes), At(100));
  EXPECT_EQ(job.ranks.at(Rank(0)).state.at_unix_ns, At(100));
}

TEST(MomentTest, LogsDoNotMoveTheMomentOfTracesAndDumps) {
  diag::Job job = JobOf({Trace("a", 0)});
  job.signals = Log("dmesg", 1e6).signals;
  std::vector<std::string> notes;
  EXPECT_EQ(SettleMoment(&job, &notes), At(2));
}

}  // namespace
}  // namespace flare::import
