// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

// How much longer a step of one run takes than a step of another, and how sure that is.
//
//   ratio         median of the second over the median of the first
//   low, high     holds the ratio of the true medians with a probability of at least 99 %: order
//                 statistics around both medians, 99.5 % each, 2.807 standard errors of sqrt(n)/2
//                 places, divided by one another
//   false_alarm   probability that runs which take equally long differ as much in either direction:
//                 twice the tail of Mann and Whitney's test
//
// n counts independent values: the number of values over their correlation time (rank_test.h). The
// slow start of a run, up to its first value that is no longer than its median, is left out. Noise
// within one run is all that this knows of: two runs on other nodes, of other days, may differ by
// more than both spread, and that is what a difference then means. Pure; values positive and
// finite.
namespace flare::diag {

struct RunComparison {
  size_t first_values = 0, second_values = 0;  // used; 0 = nothing can be said
  double first_median = 0, second_median = 0;
  double ratio = 1;
  double low = 0, high = 0;  // 0 and infinity when too few values are independent
  double false_alarm = 1;
};

RunComparison CompareRuns(std::span<const double> first, std::span<const double> second);

}  // namespace flare::diag
