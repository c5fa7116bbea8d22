// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/suggestion.h"

#include <gtest/gtest.h>

namespace flare::cli {
namespace {

const std::vector<std::string> kWords = {"run", "jobs", "report", "watch", "doctor"};

TEST(SuggestionTest, FindsTheWordMeant) {
  EXPECT_EQ(Nearest("repot", kWords), "report");
  EXPECT_EQ(Nearest("rnu", kWords), "run");
  EXPECT_EQ(Nearest("wacth", kWords), "watch");
  EXPECT_EQ(Nearest("jobbs", kWords), "jobs");
}

TEST(SuggestionTest, SaysNothingRatherThanNonsense) {
  EXPECT_EQ(Nearest("install", kWords), "");
  EXPECT_EQ(Nearest("x", kWords), "");
  EXPECT_EQ(Nearest("", kWords), "");
  EXPECT_EQ(Nearest(std::string(1 << 20, 'r'), kWords), "");
}

}  // namespace
}  // namespace flare::cli
