// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/run_comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "diag/metrics/rank_test.h"
#include "diag/metrics/statistics.h"

namespace flare::diag {
namespace {

constexpr double kStandardErrors = 2.807;

struct Run {
  std::vector<double> sorted;
  double median = 0;
  double low = 0, high = std::numeric_limits<double>::infinity();
  size_t independent = 0;
};

Run Describe(std::span<const double> values) {
  Run run;
  if (values.empty()) return run;
  const double middle = Median({values.begin(), values.end()});
  const auto begin =
      std::find_if(values.begin(), values.end(), [&](double value) { return value <= middle; });
  values = values.subspan(static_cast<size_t>(begin - values.begin()));
  run.independent =
      static_cast<size_t>(static_cast<double>(values.size()) / CorrelationTime(values));
  run.sorted.assign(values.begin(), values.end());
  std::sort(run.sorted.begin(), run.sorted.end());
  run.median = Median(run.sorted);
  const double half = kStandardErrors / 2 / std::sqrt(static_cast<double>(run.independent));
  if (run.independent == 0 || half >= 0.5) return run;
  const auto last = static_cast<double>(run.sorted.size() - 1);
  run.low = run.sorted[static_cast<size_t>(std::floor((0.5 - half) * last))];
  run.high = run.sorted[static_cast<size_t>(std::ceil((0.5 + half) * last))];
  return run;
}

}  // namespace

RunComparison CompareRuns(std::span<const double> first, std::span<const double> second) {
  const Run a = Describe(first), b = Describe(second);
  RunComparison comparison;
  comparison.high = std::numeric_limits<double>::infinity();
  if (a.sorted.empty() || b.sorted.empty()) return comparison;
  comparison.first_values = a.sorted.size();
  comparison.second_values = b.sorted.size();
  comparison.first_median = a.median;
  comparison.second_median = b.median;
  comparison.ratio = b.median / a.median;
  comparison.low = b.low / a.high;
  comparison.high = a.low > 0 ? b.high / a.low : std::numeric_limits<double>::infinity();
  const double share = ShareOfPairs(a.sorted, b.sorted);
  comparison.false_alarm =
      std::min(1.0, 2 * RankTail(a.independent, b.independent, std::max(share, 1 - share)));
  return comparison;
}

}  // namespace flare::diag
