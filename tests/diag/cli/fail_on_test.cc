// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/fail_on.h"

#include <gtest/gtest.h>

namespace flare::cli {
namespace {

v1::Report With(const std::string& finding_class, const std::string& state) {
  v1::Report report;
  report.add_findings()->set_class_(finding_class);
  report.mutable_findings(0)->set_state(state);
  return report;
}

TEST(FailOnTest, OnlyTheKindsAskedFor) {
  EXPECT_TRUE(FailsOn(With("hang", "open"), "slow,hang"));
  EXPECT_FALSE(FailsOn(With("hang", "open"), "slow,error"));
  EXPECT_TRUE(FailsOn(With("fail_slow", "open"), "slow"));
  EXPECT_TRUE(FailsOn(With("regression", "open"), "any"));
  EXPECT_FALSE(FailsOn(With("hang", "open"), ""));
}

TEST(FailOnTest, ResolvedCountsButSuspicionsDoNot) {
  EXPECT_TRUE(FailsOn(With("hang", "resolved"), "any"));
  EXPECT_FALSE(FailsOn(With("hang", "suspected"), "any"));
  EXPECT_FALSE(FailsOn(With("hang", "withdrawn"), "any"));
}

TEST(FailOnTest, ListIsCheckedWordByWord) {
  EXPECT_EQ(ParseKinds("hang,slow"), (std::vector<std::string>{"hang", "slow"}));
  EXPECT_FALSE(ParseKinds("hang,nonsense"));
  EXPECT_FALSE(ParseKinds("hang,,slow"));
  EXPECT_TRUE(ParseKinds("")->empty());
}

}  // namespace
}  // namespace flare::cli
