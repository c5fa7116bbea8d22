// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/diag/import/read_text.h"
#include "tests/diag/import/recorded.h"

namespace flare::import {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Box(const std::string& title, const char* x, int y, const char* width) {
  return "<g >\n<title>" + title + "</title><rect x=\"" + x + "\" y=\"" + std::to_string(y) +
         "\" width=\"" + width + "\" height=\"15.0\" />\n</g>\n";
}

const RankFragment* FindRank(const Fragment& fragment, uint32_t rank) {
  for (const RankFragment& candidate : fragment.ranks) {
    if (candidate.rank == Rank(rank)) return &candidate;
  }
  return nullptr;
}

TEST(StackSvgTest, ThreadIsTheWayFromTheRootToItsLastBox) {
  const Fragment fragment = MustRead(
      "<?xml version=\"1.0\"?>\n<svg><!-- Flame graph stack visualization. --><g id=\"frames\">\n" +
          Box("all (3 samples, 100%)", "10.0", 100, "300.0") +
          Box("&lt;module&gt;@t.py:9@0-2| (2 samples, 66%)", "10.0", 84, "200.0") +
          Box("wait@/x/threading.py:306@1|0/2 (1 samples, 33%)", "10.0", 68, "100.0") +
          Box("_bootstrap@/x/threading.py:890@0-2| (1 samples, 33%)", "210.0", 84, "100.0") +
          "</g></svg>",
      "stack-svg");
  ASSERT_EQ(fragment.ranks.size(), 3u);
  const RankFragment* one = FindRank(fragment, 1);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(one->world_size, 3u);
  EXPECT_EQ(one->record.state.process.threads.size(), 2u);
  EXPECT_THAT(Frames(one->record.state.process.python_stack),
              ElementsAre("wait (/x/threading.py:306)", "<module> (t.py:9)"));
  EXPECT_THAT(Frames(FindRank(fragment, 0)->record.state.process.python_stack),
              ElementsAre("<module> (t.py:9)"));
}

TEST(StackSvgTest, GraphWithoutRanksIsRefusedWithTheReason) {
  const Result<Fragment> fragment =
      ReadText("<svg><!-- Flame graph -->\n" + Box("all (3 samples, 100%)", "10.0", 100, "300.0") +
               Box("main (3 samples, 100%)", "10.0", 84, "300.0") + "</svg>");
  ASSERT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("do not say which ranks"));
}

TEST(StackSvgTest, RecordedHangShowsEachRankWhereItStands) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Fragment fragment =
      MustReadFile(Recorded("dlrover/rank6_not_in_hang_py.svg.gz"), "stack-svg");
  ASSERT_EQ(fragment.ranks.size(), 8u);
  const auto innermost = [&](uint32_t rank) {
    return Frames(FindRank(fragment, rank)->record.state.process.python_stack).at(0);
  };
  for (uint32_t rank : {0u, 1u, 2u}) EXPECT_THAT(innermost(rank), HasSubstr("synchronize ("));
  EXPECT_THAT(innermost(3), HasSubstr("custom_backward ("));
  for (uint32_t rank : {4u, 5u}) EXPECT_THAT(innermost(rank), HasSubstr("schedules.py:1458"));
  EXPECT_THAT(innermost(6), HasSubstr("barrier ("));
  EXPECT_THAT(Frames(FindRank(fragment, 6)->record.state.process.python_stack).at(2),
              HasSubstr("fake_hang (/data/mcore-0.9.0/Megatron-LM/megatron/core/pipeline_parallel/"
                        "p2p_communication.py:241"));
  EXPECT_THAT(innermost(7), HasSubstr("loss_func ("));
  EXPECT_EQ(FindRank(fragment, 3)->record.state.process.run_state, 'S');
}

}  // namespace
}  // namespace flare::import
