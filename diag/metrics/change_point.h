// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

// Lasting rises in a series of step times.
//
// Step times have heavy tails, single long steps (checkpoints, evaluation), a slow start and noise
// that remembers: means and normal distributions are of no use. A stretch of values is compared
// with the reference right before it, in two ways of which the more certain one counts:
//
//   order   Mann-Whitney test, with the lengths of both divided by the correlation time of the
//           history (rank_test.h): finds small rises where noise does not remember
//   level   Fisher's exact test on the values above the middle between both medians, with all
//   counts
//           divided by the correlation time of "above the middle", times the number of places where
//           the middle could lie: finds large rises where noise remembers. Only for rises of at
//           least kFarRise times the distance between all levels in the history (medians of
//           min_after values): memory longer than the history cannot be told, but not seen so far
//
//   false_alarm = 2 x p x number of places where a rise could begin (Bonferroni)
//
// is an upper bound of the probability that a series without any rise shows this one or a clearer
// one. It holds for independent values of any distribution, and for noise whose memory shows in the
// history; docs/accuracy.md has rates measured for noise of many kinds. Two more things can look
// like a rise and are measured for the caller to judge: `wander`, how far stretches of the same
// length rose before, and `abruptness`, which a drift lacks.
//
// All functions are pure. Values must be positive and finite. Cost: n log^2 n for n values.
namespace flare::diag {

inline constexpr double kFarRise = 4;

struct RiseSettings {
  double min_rise = 0.02;  // of the median after over the median before; less is not looked at
  size_t min_before = 48;
  size_t min_after = 8;
};

struct Rise {
  size_t begin = 0, end = 0;     // the higher values are [begin, end)
  size_t reference = 0;          // compared with [reference, begin)
  double before = 0, after = 0;  // medians of both
  double false_alarm = 1;
  // Largest rise of a stretch of this length (at most a quarter of the history) before `begin` over
  // the median of such stretches, the slow start left out; 0.02 = 2 %.
  double wander = 0;
  // Part of the rise that lies between the last and the first few values around `begin`: about 1
  // for a step, little for a drift.
  double abruptness = 0;

  double size() const { return before > 0 ? after / before - 1 : 0; }
};

// The most certain rise that lasts to the end of the series, however uncertain.
std::optional<Rise> FindLastingRise(std::span<const double> values,
                                    const RiseSettings& settings = {});

// Rises that may be over, of which each has at most `worst` as its false_alarm; the most certain
// first, at most 16. One that lies within another is found first and left out of the other.
std::vector<Rise> FindRises(std::span<const double> values, double worst,
                            const RiseSettings& settings = {});

}  // namespace flare::diag
