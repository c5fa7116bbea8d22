// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace flare::diag {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double Quantile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  const double position = std::ceil(fraction * static_cast<double>(values.size())) - 1;
  const auto index =
      static_cast<ptrdiff_t>(std::clamp(position, 0.0, static_cast<double>(values.size() - 1)));
  std::nth_element(values.begin(), values.begin() + index, values.end());
  return values[static_cast<size_t>(index)];
}

double RobustSpread(const std::vector<double>& values) {
  const double median = Median(values);
  std::vector<double> distances;
  distances.reserve(values.size());
  for (double value : values) distances.push_back(std::fabs(value - median));
  return 1.4826 * Median(std::move(distances));
}

namespace {

double LogChoose(uint32_t n, uint32_t k) {
  return std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0);
}

}  // namespace

double BinomialTail(uint32_t trials, uint32_t successes, double chance) {
  if (successes == 0) return 1;
  if (successes > trials || chance <= 0) return 0;
  if (chance >= 1) return 1;
  double tail = 0;
  for (uint32_t k = successes; k <= trials; ++k) {
    const double log_term =
        LogChoose(trials, k) + k * std::log(chance) + (trials - k) * std::log1p(-chance);
    tail += std::exp(log_term);
  }
  return std::min(tail, 1.0);
}

double HypergeometricTail(uint32_t all, uint32_t marked, uint32_t drawn, uint32_t hits) {
  if (hits == 0) return 1;
  if (marked > all || drawn > all || hits > std::min(marked, drawn)) return 0;
  const double log_all = LogChoose(all, drawn);
  const uint32_t fewest = marked + drawn > all ? marked + drawn - all : 0;
  double tail = 0;
  for (uint32_t k = std::max(hits, fewest); k <= std::min(marked, drawn); ++k) {
    tail += std::exp(LogChoose(marked, k) + LogChoose(all - marked, drawn - k) - log_all);
  }
  return std::min(tail, 1.0);
}

}  // namespace flare::diag
