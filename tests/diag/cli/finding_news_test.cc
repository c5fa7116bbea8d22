// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/finding_news.h"

#include <gtest/gtest.h>

namespace flare::cli {
namespace {

v1::Report With(const std::string& id, const std::string& state) {
  v1::Report report;
  report.add_findings()->set_id(id);
  report.mutable_findings(0)->set_state(state);
  return report;
}

TEST(FindingNewsTest, EachStateIsToldOnce) {
  FindingNews news;
  EXPECT_EQ(news.Update(With("a", "suspected")).size(), 1u);
  EXPECT_TRUE(news.Update(With("a", "suspected")).empty());
  EXPECT_EQ(news.Update(With("a", "open")).size(), 1u);
  EXPECT_TRUE(news.Update(With("a", "open")).empty());
  EXPECT_EQ(news.Update(With("a", "resolved")).size(), 1u);
}

TEST(FindingNewsTest, SuspicionThatCameAndWentIsNoNews) {
  FindingNews news;
  EXPECT_TRUE(news.Update(With("a", "withdrawn")).empty());
  EXPECT_TRUE(news.Update(With("a", "withdrawn")).empty());
  EXPECT_EQ(news.Update(With("b", "suspected")).size(), 1u);
  EXPECT_EQ(news.Update(With("b", "withdrawn")).size(), 1u);
}

}  // namespace
}  // namespace flare::cli
