// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/run_comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/diag/metrics/step_noise.h"

namespace flare::diag {
namespace {

TEST(RunComparisonTest, SlowerRunIsTold) {
  Random random(1);
  const auto first = QuietSteps(&random, 200, 0.05);
  const auto second = Raised(QuietSteps(&random, 300, 0.05), 0, 1.1);
  const RunComparison c = CompareRuns(first, second);
  EXPECT_NEAR(c.ratio, 1.1, 0.02);
  EXPECT_GT(c.low, 1.05);
  EXPECT_LT(c.high, 1.15);
  EXPECT_LT(c.false_alarm, 1e-20);
}

TEST(RunComparisonTest, IntervalHoldsTheTrueRatio) {
  Random random(2);
  int missed = 0, certain = 0;
  for (int i = 0; i < 500; ++i) {
    const auto first = QuietSteps(&random, 60, 0.1);
    const auto second = Raised(QuietSteps(&random, 80, 0.1), 0, 1.05);
    const RunComparison c = CompareRuns(first, second);
    missed += c.low > 1.05 || c.high < 1.05;
    const RunComparison same = CompareRuns(first, QuietSteps(&random, 80, 0.1));
    certain += same.false_alarm <= 0.01;
  }
  EXPECT_LE(missed, 5);
  EXPECT_LE(certain, 10);
}

TEST(RunComparisonTest, SlowStartIsLeftOut) {
  std::vector<double> first(40, 1.0), second(40, 1.0);
  for (size_t i = 0; i < 10; ++i) second[i] = 9;
  const RunComparison c = CompareRuns(first, second);
  EXPECT_EQ(c.ratio, 1);
  EXPECT_EQ(c.second_values, 30u);
}

TEST(RunComparisonTest, FewValuesSayLittle) {
  EXPECT_EQ(CompareRuns({}, std::vector<double>{1, 2}).first_values, 0u);
  const RunComparison c =
      CompareRuns(std::vector<double>{1.0, 1.0, 1.0}, std::vector<double>{2.0, 2.0, 2.0});
  EXPECT_EQ(c.ratio, 2);
  EXPECT_EQ(c.low, 0);
  EXPECT_TRUE(std::isinf(c.high));
  EXPECT_GE(c.false_alarm, 0.1 - 1e-12);
}

}  // namespace
}  // namespace flare::diag
