// SPDX-License-Identifier: Apache-2.0
#include "libflare/core/quantile_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace flare {
namespace {

// As Quantile() defines it: the smallest value that at least `fraction` do not exceed.
uint64_t Exact(const std::vector<uint64_t>& sorted, double fraction) {
  const auto n = static_cast<double>(sorted.size());
  size_t index = 0;
  while (static_cast<double>(index + 1) < fraction * n) ++index;
  return sorted[index];
}

// From one to 10^magnitude, all magnitudes alike, with a few zeroes.
std::vector<uint64_t> Random(uint32_t seed, size_t count, double magnitude = 8.5) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(0, magnitude);
  std::vector<uint64_t> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(i % 97 == 0 ? 0 : static_cast<uint64_t>(std::pow(10, exponent(random))));
  }
  return values;
}

TEST(QuantileSketchTest, QuantilesAreWithinOnePercentOfTheTruth) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::vector<uint64_t> values = Random(seed, 50 + 173 * seed);
    QuantileSketch sketch;
    for (uint64_t value : values) sketch.Add(value);
    ASSERT_LE(sketch.buckets().size(), QuantileSketch::kMaxBuckets);
    std::sort(values.begin(), values.end());
    for (double fraction : {0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 1.0}) {
      const auto exact = static_cast<double>(Exact(values, fraction));
      EXPECT_NEAR(sketch.Quantile(fraction), exact, QuantileSketch::kRelativeError * exact + 1e-9)
          << "seed " << seed << " fraction " << fraction;
    }
  }
}

TEST(QuantileSketchTest, EveryPowerOfTwoAndItsNeighboursKeepTheErrorBound) {
  for (int bit = 0; bit < 64; ++bit) {
    for (int64_t offset : {-1, 0, 1}) {
      const uint64_t value = (uint64_t{1} << bit) + static_cast<uint64_t>(offset);
      QuantileSketch sketch;
      sketch.Add(value);
      const auto exact = static_cast<double>(value);
      EXPECT_NEAR(sketch.Quantile(0.5), exact, 0.0100001 * exact) << value;
    }
  }
}

// With more magnitudes than buckets, so that parts have collapsed before they meet.
TEST(QuantileSketchTest, MergingInAnyOrderGivesTheSketchOfAllValues) {
  std::vector<QuantileSketch> parts(5);
  QuantileSketch all;
  const std::vector<uint64_t> values = Random(7, 20000, 15.5);
  for (size_t i = 0; i < values.size(); ++i) {
    parts[(i * i) % 5].Add(values[i]);
    all.Add(values[i]);
  }
  std::mt19937 random(3);
  for (int round = 0; round < 10; ++round) {
    std::shuffle(parts.begin(), parts.end(), random);
    QuantileSketch merged;
    for (const QuantileSketch& part : parts) merged.Merge(part);
    EXPECT_EQ(merged, all);
  }
}

// Enough distinct magnitudes to overflow the buckets: the small values share one, the large keep
// their precision.
TEST(QuantileSketchTest, TooManyBucketsCollapseAtTheSmallEnd) {
  QuantileSketch sketch;
  for (double value = 1; value < 1.7e19; value *= 1.021) sketch.Add(static_cast<uint64_t>(value));
  EXPECT_EQ(sketch.buckets().size(), QuantileSketch::kMaxBuckets);
  QuantileSketch tail;
  for (double value = 1; value < 1.7e19; value *= 1.021) {
    if (value > 1e15) tail.Add(static_cast<uint64_t>(value));
  }
  EXPECT_NEAR(sketch.Quantile(0.95) / 1.7e19, std::pow(1.7e19, -0.05),
              0.05 * std::pow(1.7e19, -0.05));
  EXPECT_EQ(sketch.buckets().back(), tail.buckets().back());
}

TEST(QuantileSketchTest, CountsAndSumsSaturate) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  QuantileSketch sketch;
  sketch.Add(kMost, 3);
  EXPECT_EQ(sketch.sum(), kMost);
  sketch.Add(5, kMost);
  EXPECT_EQ(sketch.count(), kMost);
  QuantileSketch twice = sketch;
  twice.Merge(sketch);
  EXPECT_EQ(twice.count(), kMost);
  EXPECT_EQ(twice.sum(), kMost);
  EXPECT_TRUE(std::isfinite(twice.Quantile(1.0)));
}

TEST(QuantileSketchTest, StoredBucketsComeBackWhateverTheirOrder) {
  QuantileSketch sketch;
  for (uint64_t value : Random(11, 500)) sketch.Add(value);
  std::vector<QuantileSketch::Bucket> buckets = sketch.buckets();
  std::reverse(buckets.begin(), buckets.end());
  EXPECT_EQ(QuantileSketch::FromBuckets(buckets, sketch.sum()), sketch);
  // What no value can give is left out.
  buckets.push_back({-7, 3});
  buckets.push_back({1 << 30, 3});
  buckets.push_back({5, 0});
  EXPECT_EQ(QuantileSketch::FromBuckets(buckets, sketch.sum()), sketch);
}

TEST(QuantileSketchTest, EmptySketchIsZeroEverywhere) {
  const QuantileSketch empty;
  EXPECT_EQ(empty.Quantile(0.5), 0);
  EXPECT_EQ(empty.Share(1e9), 0);
  EXPECT_EQ(empty.mean(), 0);
  QuantileSketch other;
  other.Add(100);
  EXPECT_EQ(WassersteinDistance(empty, other), 0);
}

TEST(WassersteinDistanceTest, MovingEverythingCostsTheDistance) {
  QuantileSketch near, far;
  near.Add(1000, 10);
  far.Add(3000, 4);  // counts differ: distributions do not
  EXPECT_NEAR(WassersteinDistance(near, far), 2000, 40);
  EXPECT_DOUBLE_EQ(WassersteinDistance(near, far), WassersteinDistance(far, near));
  EXPECT_EQ(WassersteinDistance(near, near), 0);
}

// {0, 0, 1000, 1000} to {0, 1000, 1000, 5000}: a quarter moves 0 -> 1000, a quarter 1000 -> 5000.
TEST(WassersteinDistanceTest, AgreesWithAnExampleByHand) {
  QuantileSketch a, b;
  a.Add(0, 2);
  a.Add(1000, 2);
  b.Add(0);
  b.Add(1000, 2);
  b.Add(5000);
  EXPECT_NEAR(WassersteinDistance(a, b), 0.25 * 1000 + 0.25 * 4000, 15);
}

TEST(WassersteinDistanceTest, IsAMetricOnRandomSketches) {
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    QuantileSketch s[3];
    for (uint32_t i = 0; i < 3; ++i) {
      for (uint64_t value : Random(100 * seed + i, 60)) s[i].Add(value % 1'000'000);
    }
    const double ab = WassersteinDistance(s[0], s[1]), bc = WassersteinDistance(s[1], s[2]);
    const double ac = WassersteinDistance(s[0], s[2]);
    EXPECT_GT(ab, 0);
    EXPECT_LE(ac, (ab + bc) * (1 + 1e-9));
  }
}

}  // namespace
}  // namespace flare
