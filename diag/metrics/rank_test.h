// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

// Is one set of values larger than another? By order alone, without a word about their
// distribution.
//
//   share  of the pairs (a, b) with a < b, ties half: Mann and Whitney's U over their number (1947)
//   tail   probability of that share or more if both sets come from one distribution: exact up to
//          40,000 pairs, beyond that the normal limit, which is the larger of the two in the tail
//
// Noise that remembers tells less than its number of values. How many of them count as one is
//
//   t = 1 + 2 (r1 + r2 + ...)      r = autocorrelation of the ranks
//
// summed over pairs of lags while they are positive (Geyer 1992), and taken two standard errors
// higher, of variance 2 t^2 (2 lags + 1) / values (Sokal 1989): a short history hides long memory.
//
// All functions are pure; values are finite.
namespace flare::diag {

// 0.5 when the sets are alike or one is empty. Both sorted, ascending.
double ShareOfPairs(std::span<const double> lower, std::span<const double> upper);

// For numbers of independent values. 1 for a share of 0.5 or less.
double RankTail(size_t lower, size_t upper, double share);

// At least 1. Cost: values times lags, at most a third of the square of the values.
double CorrelationTime(std::span<const double> values);

}  // namespace flare::diag
