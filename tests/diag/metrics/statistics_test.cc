// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/statistics.h"

#include <gtest/gtest.h>

namespace flare::diag {
namespace {

TEST(StatisticsTest, MedianOfOddEvenAndNothing) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(Median({}), 0);
}

TEST(StatisticsTest, QuantileIsTheNearestRank) {
  const std::vector<double> values = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100};
  EXPECT_EQ(Quantile(values, 0.95), 100);
  EXPECT_EQ(Quantile(values, 0.9), 90);
  EXPECT_EQ(Quantile(values, 0), 10);
  EXPECT_EQ(Quantile({}, 0.5), 0);
}

TEST(StatisticsTest, RobustSpreadIgnoresAnOutlier) {
  EXPECT_NEAR(RobustSpread({9, 10, 11, 10, 1000}), 1.4826, 1e-9);
}

TEST(StatisticsTest, BinomialTailMatchesKnownValues) {
  struct Case {
    uint32_t trials, successes;
    double chance, tail;
  };
  for (const Case& c :
       {Case{10, 0, 0.5, 1}, Case{10, 10, 0.5, 1.0 / 1024}, Case{10, 9, 0.5, 11.0 / 1024},
        Case{4, 2, 0.25, 67.0 / 256}, Case{3, 4, 0.5, 0}, Case{5, 2, 1, 1}}) {
    EXPECT_NEAR(BinomialTail(c.trials, c.successes, c.chance), c.tail, 1e-12)
        << c.trials << " " << c.successes;
  }
}

// Five of ten are marked and five drawn: C(10, 5) = 252 draws, C(5, k) C(5, 5 - k) with k hits.
TEST(StatisticsTest, HypergeometricTailMatchesKnownValues) {
  struct Case {
    uint32_t all, marked, drawn, hits;
    double tail;
  };
  for (const Case& c : {Case{10, 5, 5, 5, 1.0 / 252}, Case{10, 5, 5, 4, 26.0 / 252},
                        Case{10, 5, 5, 0, 1}, Case{10, 5, 5, 6, 0}, Case{10, 9, 5, 4, 1},
                        Case{4, 2, 1, 1, 0.5}, Case{0, 0, 0, 0, 1}, Case{5, 7, 1, 1, 0}}) {
    EXPECT_NEAR(HypergeometricTail(c.all, c.marked, c.drawn, c.hits), c.tail, 1e-12)
        << c.marked << " " << c.hits;
  }
}

}  // namespace
}  // namespace flare::diag
