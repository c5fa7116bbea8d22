// SPDX-License-Identifier: Apache-2.0
#include "diag/import/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/diag/import/fragments.h"

namespace flare::import {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(CheckTest, OrdinaryFragmentPassesUnchanged) {
  Fragment file = Trace("a", 0);
  CheckFragment(&file);
  EXPECT_THAT(file.ranks[0].record.steps, SizeIs(2));
  EXPECT_THAT(file.notes, IsEmpty());
}

TEST(CheckTest, StepsWithImpossibleNumbersAreLeftOut) {
  Fragment file = File("a", 0);
  AddSteps(&file, 0, 4);
  auto& steps = file.ranks[0].record.steps;
  steps[0].duration_ns = UINT64_MAX;
  steps[1].start_unix_ns = uint64_t{1} << 63;
  steps[2].step = StepId(UINT64_MAX);
  CheckFragment(&file);
  EXPECT_THAT(steps, SizeIs(1));
  EXPECT_THAT(file.notes, ElementsAre("3 steps with impossible numbers left out"));
}

TEST(CheckTest, StepsAreBroughtIntoOrderAndOnce) {
  Fragment file = File("a", 0);
  for (uint64_t step : {5, 3, 5, 4}) AddSteps(&file, step, 1);
  CheckFragment(&file);
  const auto& steps = file.ranks[0].record.steps;
  ASSERT_THAT(steps, SizeIs(3));
  EXPECT_EQ(steps.front().step, StepId(3));
  EXPECT_THAT(file.notes, ElementsAre("a step that comes twice used once"));
}

TEST(CheckTest, TextsCannotCarryControlsNorGrow) {
  Fragment file = Log("a", 1);
  file.identity = "a\nb\x1b[2J";
  file.signals[0].text = std::string(499, 'x') + "\xc3\xa9";  // a character across the limit
  CheckFragment(&file);
  EXPECT_EQ(file.identity, "a b [2J");
  EXPECT_EQ(file.signals[0].text, std::string(499, 'x'));
}

TEST(CheckTest, ListsAndDurationsOfCollectivesAreBounded) {
  Fragment file = Trace("a", 0);
  diag::RankStep& step = file.ranks[0].record.steps[0];
  step.communicators.resize(3000);
  step.communicators[0].duration_us.resize((1 << 20) + 1);
  step.device->span_ns = UINT64_MAX;
  CheckFragment(&file);
  EXPECT_THAT(step.communicators, SizeIs(1024));
  EXPECT_THAT(step.communicators[0].duration_us, IsEmpty());
  EXPECT_EQ(step.device->span_ns, 0u);
  EXPECT_THAT(file.notes, Contains("an impossible time taken for unknown"));
}

TEST(CheckTest, CallsBeyondReasonAreLeftOut) {
  Fragment file = Dump("a", 0, 10, 5);
  diag::RankState& state = file.ranks[0].record.state;
  state.open_calls.push_back(state.open_calls[0]);
  state.open_calls[1].since_unix_ns = UINT64_MAX;
  state.communicators.resize(1);
  state.communicators[0].launched = UINT64_MAX;
  CheckFragment(&file);
  EXPECT_THAT(state.open_calls, SizeIs(1));
  EXPECT_THAT(state.communicators, IsEmpty());
}

}  // namespace
}  // namespace flare::import
