// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

// Series of step times without any change, in the ways in which real ones are noisy: to measure how
// often a detector cries wolf. Around 1; the same seed gives the same series.
namespace flare::diag {

using Random = std::mt19937_64;

struct NoiseModel {
  const char* name;
  std::function<std::vector<double>(Random* random, size_t count)> make;
  // What is known of its memory: a bound of false alarms holds for kNone alone.
  enum Memory { kNone, kShort, kLong, kSwitches } memory;
};

const std::vector<NoiseModel>& NoiseModels();

// Independent values with a relative spread of `sigma`.
std::vector<double> QuietSteps(Random* random, size_t count, double sigma);

// `values` with all from `begin` on `ratio` times as long.
std::vector<double> Raised(std::vector<double> values, size_t begin, double ratio);

}  // namespace flare::diag
