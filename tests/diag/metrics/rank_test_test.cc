// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/rank_test.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/diag/metrics/step_noise.h"

namespace flare::diag {
namespace {

TEST(RankTestTest, ShareCountsPairsAndHalvesTies) {
  struct Case {
    std::vector<double> lower, upper;
    double share;
  };
  for (const Case& c :
       {Case{{1, 2}, {3, 4}, 1}, Case{{3, 4}, {1, 2}, 0}, Case{{1, 3}, {2, 4}, 0.75},
        Case{{1, 1}, {1, 1}, 0.5}, Case{{1, 2, 3}, {2}, 0.5}, Case{{}, {1}, 0.5}}) {
    EXPECT_DOUBLE_EQ(ShareOfPairs(c.lower, c.upper), c.share);
  }
}

// By hand: of the C(6, 3) = 20 orders of 3 and 3, one has no pair in the wrong order, one has one,
// two have two. Of C(5, 2) = 10 orders of 3 and 2, one, one, two and two have 0 to 3.
TEST(RankTestTest, TailIsExactForFew) {
  EXPECT_NEAR(RankTail(3, 3, 1), 1.0 / 20, 1e-12);
  EXPECT_NEAR(RankTail(3, 3, 8.0 / 9), 2.0 / 20, 1e-12);
  EXPECT_NEAR(RankTail(3, 3, 7.0 / 9), 4.0 / 20, 1e-12);
  EXPECT_NEAR(RankTail(2, 3, 3.0 / 6 + 1e-6), 6.0 / 10, 1e-12);
  EXPECT_NEAR(RankTail(200, 200, 1), std::exp(2 * std::lgamma(201) - std::lgamma(401)), 1e-125);
  EXPECT_EQ(RankTail(0, 5, 1), 1);
  EXPECT_EQ(RankTail(5, 5, 0.4), 1);
}

TEST(RankTestTest, NormalLimitIsNoSmallerThanTheExactTail) {
  for (double share : {0.55, 0.6, 0.65, 0.7, 0.8, 0.9}) {
    const double exact = RankTail(200, 200, share), limit = RankTail(200, 201, share);
    EXPECT_GE(limit, exact * 0.9) << share;
  }
}

TEST(RankTestTest, CorrelationTimeOfKnownNoise) {
  Random random(3);
  const std::vector<double> quiet = QuietSteps(&random, 1000, 0.1);
  EXPECT_LT(CorrelationTime(quiet), 1.6);
  EXPECT_EQ(CorrelationTime(std::vector<double>(100, 1.0)), 1);
  EXPECT_EQ(CorrelationTime(std::vector<double>{1, 2, 3}), 1);
  // First order autoregressive with 0.9: (1 + 0.9) / (1 - 0.9) = 19 values count as one.
  std::vector<double> remembers(4000);
  double state = 0;
  std::normal_distribution<double> normal;
  for (double& value : remembers) value = state = 0.9 * state + normal(random);
  EXPECT_GT(CorrelationTime(remembers), 15);
  EXPECT_LT(CorrelationTime(remembers), 35);
}

}  // namespace
}  // namespace flare::diag
