// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// A distribution of durations in a few bytes, with quantiles of bounded relative error.
//
// Buckets grow by gamma = 1.01 / 0.99 (1 % relative error), as in DDSketch (Masson, Rim, Lee, VLDB
// 2019): value x goes to bucket ceil(log_gamma(x)). Zero has a bucket of its own. At most
// kMaxBuckets; beyond that the smallest values share one, so that high quantiles keep their error.
// Merging is adding: the order of merges does not change the result. Not thread-safe. Not for use in
// the training process (allocates).
namespace flare {

class QuantileSketch {
 public:
  static constexpr double kRelativeError = 0.01;
  static constexpr size_t kMaxBuckets = 1024;

  void Add(uint64_t value, uint64_t count = 1);
  void Merge(const QuantileSketch& other);

  uint64_t count() const { return count_; }
  uint64_t sum() const { return sum_; }  // exact; saturates
  double mean() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }
  // The value that at least `fraction` (0 to 1) of the values do not exceed, within kRelativeError;
  // 0 when empty.
  double Quantile(double fraction) const;
  // Share of values at or below `value`, for distances between distributions; 0 when empty.
  double Share(double value) const;

  struct Bucket {
    int32_t index = 0;  // ceil(log_gamma(value)); kZeroIndex for zero
    uint64_t count = 0;
    bool operator==(const Bucket&) const = default;
  };
  static constexpr int32_t kZeroIndex = -1;
  static double BucketValue(int32_t index);  // the value that stands for a bucket
  // Ascending by index, none empty. What is stored and sent.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  // From stored or received buckets, in any order. Indexes out of range are left out.
  static QuantileSketch FromBuckets(const std::vector<Bucket>& buckets, uint64_t sum);

  bool operator==(const QuantileSketch&) const = default;

 private:
  void Collapse();

  std::vector<Bucket> buckets_;
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
};

// W1 = integral of |F_a - F_b| dx: the mean distance by which values of one distribution must move
// to give the other, in the unit of the values. 0 when either is empty.
double WassersteinDistance(const QuantileSketch& a, const QuantileSketch& b);

}  // namespace flare
