// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/rank_test.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace flare::diag {
namespace {

constexpr double kExactPairs = 40'000;

// Ranks of the values less their mean; equal values share one.
std::vector<double> CentredRanks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  const double mean = (static_cast<double>(values.size()) - 1) / 2;
  for (size_t i = 0; i < order.size();) {
    size_t end = i + 1;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    const double rank = static_cast<double>(i + end - 1) / 2;
    for (; i < end; ++i) ranks[order[i]] = rank - mean;
  }
  return ranks;
}

// Number of arrangements with at most `most` pairs in the wrong order, over all arrangements. The
// counts are the coefficients of the Gaussian binomial, product of (1 - q^(n+i)) / (1 - q^i); each
// division is a running sum.
double ExactTail(size_t small, size_t large, size_t most) {
  std::vector<double> counts(most + 1, 0);
  counts[0] = 1;
  for (size_t i = 1; i <= small; ++i) {
    for (size_t u = most + 1; u-- > large + i;) counts[u] -= counts[u - large - i];
    for (size_t u = i; u <= most; ++u) counts[u] += counts[u - i];
  }
  const auto a = static_cast<double>(small), b = static_cast<double>(large);
  const double log_all = std::lgamma(a + b + 1) - std::lgamma(a + 1) - std::lgamma(b + 1);
  double tail = 0;
  for (double count : counts) tail += std::exp(std::log(std::max(count, 0.5)) - log_all);
  return std::min(tail, 1.0);
}

}  // namespace

double ShareOfPairs(std::span<const double> lower, std::span<const double> upper) {
  if (lower.empty() || upper.empty()) return 0.5;
  size_t below = 0, not_above = 0;
  double pairs = 0;
  for (double value : upper) {
    while (below < lower.size() && lower[below] < value) ++below;
    not_above = std::max(not_above, below);
    while (not_above < lower.size() && lower[not_above] <= value) ++not_above;
    pairs += static_cast<double>(below + not_above) / 2;
  }
  return pairs / static_cast<double>(lower.size()) / static_cast<double>(upper.size());
}

double RankTail(size_t lower, size_t upper, double share) {
  if (lower == 0 || upper == 0 || share <= 0.5) return 1;
  const auto a = static_cast<double>(lower), b = static_cast<double>(upper);
  if (a * b > kExactPairs) {
    const double z = (share - 0.5) / std::sqrt((1 / a + 1 / b) / 12);
    return 0.5 * std::erfc(z / std::sqrt(2.0));
  }
  const double wrong = std::ceil((1 - share) * a * b - 1e-9);
  return ExactTail(std::min(lower, upper), std::max(lower, upper), static_cast<size_t>(wrong));
}

double CorrelationTime(std::span<const double> values) {
  constexpr size_t kFewest = 8;
  const size_t count = values.size();
  if (count < kFewest) return 1;
  const std::vector<double> ranks = CentredRanks(values);
  const double variance = std::inner_product(ranks.begin(), ranks.end(), ranks.begin(), 0.0);
  if (variance <= 0) return 1;
  const auto correlation = [&](size_t lag) {
    return std::inner_product(ranks.begin(), ranks.end() - static_cast<ptrdiff_t>(lag),
                              ranks.begin() + static_cast<ptrdiff_t>(lag), 0.0) /
           variance;
  };
  double time = 1;
  size_t lag = 1;
  for (; lag + 1 <= count / 3; lag += 2) {
    const double pair = correlation(lag) + correlation(lag + 1);
    if (pair <= 0) break;
    time += 2 * pair;
  }
  const double error = std::sqrt(2 * static_cast<double>(2 * lag + 1) / static_cast<double>(count));
  return std::max(1.0, time) * (1 + 2 * error);
}

}  // namespace flare::diag
