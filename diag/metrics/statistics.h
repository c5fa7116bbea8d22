// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

// The few statistics that metrics and detectors share. All are pure; an empty input gives 0.
namespace flare::diag {

// Middle value; mean of the two middle values of an even count.
double Median(std::vector<double> values);

// Smallest value that at least `fraction` (0 to 1) of the values do not exceed (nearest rank).
double Quantile(std::vector<double> values, double fraction);

// 1.4826 x the median distance from the median: the standard deviation of a normal distribution,
// unmoved by outliers.
double RobustSpread(const std::vector<double>& values);

// Probability of at least `successes` among `trials` independent trials of probability `chance`.
double BinomialTail(uint32_t trials, uint32_t successes, double chance);

// Probability of at least `hits` marked ones among `drawn` drawn without return from `all`, of
// which `marked` are marked (Fisher's exact test, one-sided).
double HypergeometricTail(uint32_t all, uint32_t marked, uint32_t drawn, uint32_t hits);

}  // namespace flare::diag
