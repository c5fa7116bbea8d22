// SPDX-License-Identifier: Apache-2.0
#include "diag/import/number_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/diag/import/fragments.h"

namespace flare::import {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(NumberRanksTest, TheWordRankTells) {
  EXPECT_EQ(RankInName("a/trace_rank-12.json.gz"), 12u);
  EXPECT_EQ(RankInName("kineto-Rank0.json"), 0u);
  EXPECT_EQ(RankInName("nccl_trace_rank_007"), 7u);
  EXPECT_EQ(RankInName("rank3/trace.json"), std::nullopt);  // a folder
  EXPECT_EQ(RankInName("crank4.json"), std::nullopt);
  EXPECT_EQ(RankInName("local_rank2.json"), std::nullopt);
  EXPECT_EQ(RankInName("ranks.json"), std::nullopt);
  EXPECT_EQ(RankInName("rank99999999999.json"), std::nullopt);
}

TEST(NumberRanksTest, NumbersInWhichAllNamesDifferTell) {
  EXPECT_THAT(NumbersInNames({"_dump_0", "_dump_1", "_dump_13"}), ElementsAre(0, 1, 13));
  EXPECT_THAT(NumbersInNames({"1.json", "21.json", "11.json"}), ElementsAre(1, 21, 11));
  EXPECT_THAT(NumbersInNames({"a", "b"}), IsEmpty());
  EXPECT_THAT(NumbersInNames({"a1", "a1"}), IsEmpty());
  EXPECT_THAT(NumbersInNames({"a1", "a01"}), IsEmpty());
  EXPECT_THAT(NumbersInNames({"stack.4711", "stack.4712"}), IsEmpty());  // pids
  EXPECT_THAT(NumbersInNames({"a1b2", "a2b1"}), IsEmpty());
  EXPECT_THAT(NumbersInNames({"only1"}), IsEmpty());
  EXPECT_THAT(NumbersInNames({}), IsEmpty());
}

TEST(NumberRanksTest, WhatTheFileSaysIsNeverOverruled) {
  std::vector<Fragment> files = {Trace("rank7.json", 2)};
  NumberRanks(&files);
  EXPECT_EQ(files[0].ranks[0].rank, Rank(2));
  EXPECT_THAT(files[0].notes, IsEmpty());
}

TEST(NumberRanksTest, NameThatDoesNotFitTheWorldIsIgnored) {
  std::vector<Fragment> files = {Dump("rank7", std::nullopt, 0, 1)};
  files[0].ranks[0].world_size = 4;
  NumberRanks(&files);
  EXPECT_EQ(files[0].ranks[0].rank, std::nullopt);
}

TEST(NumberRanksTest, DumpsAreNumberedByFolderAndKind) {
  std::vector<Fragment> files = {Dump("x/_dump_0", {}, 0, 1), Dump("x/_dump_5", {}, 0, 1),
                                 Dump("y/_dump_3", {}, 0, 1)};
  NumberRanks(&files);
  EXPECT_EQ(files[0].ranks[0].rank, Rank(0));
  EXPECT_EQ(files[1].ranks[0].rank, Rank(5));
  EXPECT_EQ(files[2].ranks[0].rank, std::nullopt);
  EXPECT_THAT(files[1].notes, ElementsAre("rank 5 by the number in the name of the file"));
}

TEST(NumberRanksTest, SeveralProcessesOfOneFileTakeTheFreeNumbers) {
  Fragment file = Trace("all.json", 1);
  for (int i = 0; i < 2; ++i) {
    file.ranks.push_back(file.ranks[0]);
    file.ranks.back().rank.reset();
  }
  std::vector<Fragment> files = {file};
  NumberRanks(&files);
  EXPECT_EQ(files[0].ranks[1].rank, Rank(0));
  EXPECT_EQ(files[0].ranks[2].rank, Rank(2));
}

}  // namespace
}  // namespace flare::import
