// SPDX-License-Identifier: Apache-2.0
#include "libflare/core/quantile_sketch.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace flare {
namespace {

constexpr double kGamma = (1 + QuantileSketch::kRelativeError) / (1 - QuantileSketch::kRelativeError);

// log_gamma(2^64) rounded up: no value has a larger index.
constexpr int32_t kLastIndex = 2219;

int32_t IndexOf(uint64_t value) {
  static const double scale = 1 / std::log(kGamma);
  if (value == 0) return QuantileSketch::kZeroIndex;
  return static_cast<int32_t>(std::ceil(std::log(static_cast<double>(value)) * scale));
}

uint64_t AddSaturating(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<uint64_t>::max() : sum;
}

uint64_t MultiplySaturating(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<uint64_t>::max() : product;
}

}  // namespace

double QuantileSketch::BucketValue(int32_t index) {
  if (index == kZeroIndex) return 0;
  // Half-way in relative terms: off by kRelativeError at both ends of the bucket.
  return 2 * std::pow(kGamma, index) / (1 + kGamma);
}

void QuantileSketch::Add(uint64_t value, uint64_t count) {
  if (count == 0) return;
  const int32_t index = IndexOf(value);
  const auto at = std::lower_bound(buckets_.begin(), buckets_.end(), index,
                                   [](const Bucket& bucket, int32_t i) { return bucket.index < i; });
  if (at != buckets_.end() && at->index == index) {
    at->count = AddSaturating(at->count, count);
  } else {
    buckets_.insert(at, {index, count});
    Collapse();
  }
  count_ = AddSaturating(count_, count);
  sum_ = AddSaturating(sum_, MultiplySaturating(value, count));
}

void QuantileSketch::Merge(const QuantileSketch& other) {
  std::vector<Bucket> merged;
  merged.reserve(buckets_.size() + other.buckets_.size());
  auto a = buckets_.begin();
  auto b = other.buckets_.begin();
  while (a != buckets_.end() || b != other.buckets_.end()) {
    if (b == other.buckets_.end() || (a != buckets_.end() && a->index < b->index)) {
      merged.push_back(*a++);
    } else if (a == buckets_.end() || b->index < a->index) {
      merged.push_back(*b++);
    } else {
      merged.push_back({a->index, AddSaturating(a->count, b->count)});
      ++a;
      ++b;
    }
  }
  buckets_ = std::move(merged);
  Collapse();
  count_ = AddSaturating(count_, other.count_);
  sum_ = AddSaturating(sum_, other.sum_);
}

void QuantileSketch::Collapse() {
  if (buckets_.size() <= kMaxBuckets) return;
  const size_t extra = buckets_.size() - kMaxBuckets;
  for (size_t i = 0; i < extra; ++i) {
    buckets_[extra].count = AddSaturating(buckets_[extra].count, buckets_[i].count);
  }
  buckets_.erase(buckets_.begin(), buckets_.begin() + static_cast<ptrdiff_t>(extra));
}

double QuantileSketch::Quantile(double fraction) const {
  if (count_ == 0) return 0;
  const double wanted = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(count_);
  double seen = 0;
  for (const Bucket& bucket : buckets_) {
    seen += static_cast<double>(bucket.count);
    if (seen >= wanted) return BucketValue(bucket.index);
  }
  return BucketValue(buckets_.back().index);
}

double QuantileSketch::Share(double value) const {
  if (count_ == 0) return 0;
  double below = 0;
  for (const Bucket& bucket : buckets_) {
    if (BucketValue(bucket.index) > value) break;
    below += static_cast<double>(bucket.count);
  }
  return below / static_cast<double>(count_);
}

QuantileSketch QuantileSketch::FromBuckets(const std::vector<Bucket>& buckets, uint64_t sum) {
  std::vector<Bucket> sorted;
  for (const Bucket& bucket : buckets) {
    if (bucket.count > 0 && bucket.index >= kZeroIndex && bucket.index <= kLastIndex) {
      sorted.push_back(bucket);
    }
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Bucket& a, const Bucket& b) { return a.index < b.index; });
  QuantileSketch sketch;
  for (const Bucket& bucket : sorted) {
    if (!sketch.buckets_.empty() && sketch.buckets_.back().index == bucket.index) {
      sketch.buckets_.back().count = AddSaturating(sketch.buckets_.back().count, bucket.count);
    } else {
      sketch.buckets_.push_back(bucket);
    }
    sketch.count_ = AddSaturating(sketch.count_, bucket.count);
  }
  sketch.Collapse();
  sketch.sum_ = sum;
  return sketch;
}

double WassersteinDistance(const QuantileSketch& a, const QuantileSketch& b) {
  if (a.count() == 0 || b.count() == 0) return 0;
  auto i = a.buckets().begin();
  auto j = b.buckets().begin();
  double share_a = 0, share_b = 0, distance = 0, at = 0;
  bool started = false;
  while (i != a.buckets().end() || j != b.buckets().end()) {
    int32_t next = 0;
    if (j == b.buckets().end() || (i != a.buckets().end() && i->index <= j->index)) {
      next = i->index;
    } else {
      next = j->index;
    }
    const double value = QuantileSketch::BucketValue(next);
    if (started) distance += std::abs(share_a - share_b) * (value - at);
    started = true;
    at = value;
    if (i != a.buckets().end() && i->index == next) {
      share_a += static_cast<double>(i++->count) / static_cast<double>(a.count());
    }
    if (j != b.buckets().end() && j->index == next) {
      share_b += static_cast<double>(j++->count) / static_cast<double>(b.count());
    }
  }
  return distance;
}

}  // namespace flare
