// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/change_point.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "diag/metrics/rank_test.h"
#include "diag/metrics/statistics.h"

namespace flare::diag {
namespace {

using Values = std::span<const double>;

constexpr size_t kMostRises = 16;
constexpr size_t kReferenceLengths = 8;  // the reference is this many times the stretch ...
constexpr size_t kLeastReference = 64;   // ... and at least this long, where there is so much
constexpr size_t kRemembered = 1024;     // values that tell how long noise remembers
constexpr double kLengthGrowth = 1.15;
constexpr double kWays = 2;  // order and level

double MedianOf(Values values) { return Median({values.begin(), values.end()}); }

std::vector<double> Sorted(Values values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// Values before the first stretch that is no higher than the median of all: the slow start.
size_t SlowStart(Values values, size_t length) {
  const double middle = MedianOf(values);
  size_t begin = 0;
  while (begin + length < values.size() && MedianOf(values.subspan(begin, length)) > middle) {
    ++begin;
  }
  return begin;
}

// One place, before it is known to be the best one.
struct Candidate {
  size_t begin = 0, end = 0;
  size_t reference = 0;
  double before = 0, after = 0;
  double share = 0.5;
  double z = 0;  // of the share, as if values were independent: tells the clearest place

  Values Before(Values values) const { return values.subspan(reference, begin - reference); }
  Values After(Values values) const { return values.subspan(begin, end - begin); }
};

Candidate Compare(Values values, size_t begin, size_t end, double min_rise) {
  const size_t wanted = std::max(kLeastReference, kReferenceLengths * (end - begin));
  Candidate candidate{begin, end, begin - std::min(begin, wanted)};
  const Values before = candidate.Before(values), after = candidate.After(values);
  candidate.before = MedianOf(before);
  candidate.after = MedianOf(after);
  if (candidate.after < candidate.before * (1 + min_rise)) return candidate;
  candidate.share = ShareOfPairs(Sorted(before), Sorted(after));
  const double unit =
      1 / static_cast<double>(before.size()) + 1 / static_cast<double>(after.size());
  candidate.z = (candidate.share - 0.5) / std::sqrt(unit / 12);
  return candidate;
}

// Medians of stretches of the history, a quarter of their length apart. The slow start, which ends
// with the first one that is no higher than their own median, is left out.
std::vector<double> LevelsOf(Values history, size_t length) {
  std::vector<double> levels;
  if (length == 0) return levels;
  const size_t stride = std::max<size_t>(1, length / 4);
  for (size_t at = history.size() % stride; at + length <= history.size(); at += stride) {
    levels.push_back(MedianOf(history.subspan(at, length)));
  }
  const double middle = Median(levels);
  levels.erase(levels.begin(), std::find_if(levels.begin(), levels.end(),
                                            [&](double level) { return level <= middle; }));
  return levels;
}

double Wander(Values history, size_t length) {
  const std::vector<double> levels = LevelsOf(history, std::min(length, history.size() / 4));
  const double middle = Median(levels);
  return middle > 0 ? *std::max_element(levels.begin(), levels.end()) / middle - 1 : 0;
}

double Abruptness(Values values, const Rise& rise) {
  const size_t length = rise.end - rise.begin;
  const size_t near = std::min(std::clamp<size_t>(length / 4, 8, 16), length);
  const double jump = MedianOf(values.subspan(rise.begin, near)) -
                      MedianOf(values.subspan(rise.begin - std::min(near, rise.begin), near));
  return jump / (rise.after - rise.before);
}

double ByOrder(Values values, Values history, const Candidate& candidate) {
  const double time = CorrelationTime(history);
  const auto independent = [&](Values part) {
    return static_cast<size_t>(static_cast<double>(part.size()) / time);
  };
  return RankTail(independent(candidate.Before(values)), independent(candidate.After(values)),
                  candidate.share);
}

double ByLevel(Values values, Values history, const Candidate& candidate, size_t level_length) {
  const std::vector<double> levels = LevelsOf(history, level_length);
  if (levels.empty()) return 1;
  const auto [low, high] = std::minmax_element(levels.begin(), levels.end());
  if (candidate.after - candidate.before < kFarRise * (*high - *low)) return 1;
  const double middle = (candidate.before + candidate.after) / 2;
  std::vector<double> above;
  for (double value : history) above.push_back(value > middle ? 1 : 0);
  // Without any there is nothing to come in runs.
  const bool none = std::count(above.begin(), above.end(), 1.0) == 0;
  const double time = none ? 1 : CorrelationTime(above);
  const auto count_above = [&](Values part) {
    return std::count_if(part.begin(), part.end(), [&](double value) { return value > middle; });
  };
  const auto at_most = [&](auto count) {
    return static_cast<uint32_t>(static_cast<double>(count) / time);
  };
  const Values before = candidate.Before(values), after = candidate.After(values);
  const uint32_t drawn = at_most(after.size()), all = at_most(before.size()) + drawn;
  const uint32_t hits = at_most(count_above(after));
  const auto earlier =
      static_cast<uint32_t>(std::ceil(static_cast<double>(count_above(before)) / time));
  return all * HypergeometricTail(all, std::min(all, hits + earlier), drawn, hits);
}

// `places`: at how many a rise could have begun.
Rise Judge(Values values, const Candidate& candidate, double places, const RiseSettings& settings) {
  Rise rise;
  rise.reference = candidate.reference;
  rise.begin = candidate.begin;
  rise.end = candidate.end;
  rise.before = candidate.before;
  rise.after = candidate.after;
  const Values past = values.first(rise.begin);
  const Values history = past.last(std::min(past.size(), kRemembered));
  const double p = std::min(ByOrder(values, history, candidate),
                            ByLevel(values, history, candidate, settings.min_after));
  rise.false_alarm = std::min(1.0, kWays * places * p);
  rise.wander = Wander(past, rise.end - rise.begin);
  rise.abruptness = Abruptness(values, rise);
  return rise;
}

// The place with the most values on their own side: below `middle` before it, above it after.
size_t Crossing(Values values, double middle) {
  long best = 0, sum = 0;
  size_t place = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += values[i] < middle ? 1 : -1;
    if (sum <= best) continue;
    best = sum;
    place = i + 1;
  }
  return place;
}

size_t Slack(const Candidate& candidate) {
  return std::max<size_t>(4, (candidate.end - candidate.begin) / 3);
}

// Moves the beginning of a candidate to where its values cross over.
Candidate SharpBegin(Values values, const Candidate& rough, const RiseSettings& settings) {
  const size_t slack = Slack(rough);
  const size_t from = std::max(settings.min_before, rough.begin - std::min(rough.begin, slack));
  const size_t to = std::min(rough.begin + slack, rough.end - settings.min_after);
  if (from >= to) return rough;
  const double middle = (rough.before + rough.after) / 2;
  const size_t begin = from + Crossing(values.subspan(from, to - from), middle);
  const Candidate sharp = Compare(values, begin, rough.end, settings.min_rise);
  return sharp.z > rough.z ? sharp : rough;
}

// Likewise the end: the same, read backwards.
Candidate SharpEnd(Values values, const Candidate& rough, const RiseSettings& settings) {
  const size_t slack = Slack(rough);
  const size_t from = std::max(rough.begin + settings.min_after, rough.end - slack);
  const size_t to = std::min(rough.end + slack, values.size());
  if (from >= to) return rough;
  const std::vector<double> backwards(
      std::make_reverse_iterator(values.begin() + static_cast<ptrdiff_t>(to)),
      std::make_reverse_iterator(values.begin() + static_cast<ptrdiff_t>(from)));
  const size_t end = to - Crossing(backwards, (rough.before + rough.after) / 2);
  const Candidate sharp = Compare(values, rough.begin, end, settings.min_rise);
  return sharp.z > rough.z ? sharp : rough;
}

// The clearest candidate of each octave of lengths: which of them chance explains least shows only
// when it is judged, and that costs more than finding it.
using Octaves = std::vector<Candidate>;

void Take(const Candidate& candidate, Octaves* octaves) {
  if (candidate.z <= 0) return;
  const size_t octave = std::bit_width(candidate.end - candidate.begin);
  if (octaves->size() <= octave) octaves->resize(octave + 1);
  if (candidate.z > (*octaves)[octave].z) (*octaves)[octave] = candidate;
}

std::optional<Rise> Best(Values values, const Octaves& octaves, bool sharp_end, double places,
                         const RiseSettings& settings) {
  std::optional<Rise> best;
  double best_z = 0;
  for (const Candidate& rough : octaves) {
    if (rough.z <= 0) continue;
    Candidate candidate = SharpBegin(values, rough, settings);
    if (sharp_end) candidate = SharpEnd(values, candidate, settings);
    const Rise rise = Judge(values, candidate, places, settings);
    // Of two that chance cannot make at all, the clearer one.
    const bool better = !best || rise.false_alarm < best->false_alarm ||
                        (rise.false_alarm == best->false_alarm && candidate.z > best_z);
    if (!better) continue;
    best = rise;
    best_z = candidate.z;
  }
  return best;
}

std::optional<Rise> FindAnyRise(Values values, const RiseSettings& settings) {
  Octaves octaves;
  double places = 0;
  for (size_t length = settings.min_after; length + settings.min_before <= values.size();
       length *= 2) {
    const size_t stride = std::max<size_t>(1, length / 4);
    places += static_cast<double>(values.size() - settings.min_before - length + 1);
    for (size_t end = settings.min_before + length; end <= values.size(); end += stride) {
      Take(Compare(values, end - length, end, settings.min_rise), &octaves);
    }
  }
  return Best(values, octaves, true, places, settings);
}

}  // namespace

std::optional<Rise> FindLastingRise(Values all, const RiseSettings& settings) {
  const size_t start = SlowStart(all, settings.min_after);
  const Values values = all.subspan(start);
  if (values.size() < settings.min_before + settings.min_after) return std::nullopt;
  const size_t longest = values.size() - settings.min_before;
  Octaves octaves;
  for (size_t length = settings.min_after; length <= longest;
       length =
           std::max(length + 1, static_cast<size_t>(static_cast<double>(length) * kLengthGrowth))) {
    Take(Compare(values, values.size() - length, values.size(), settings.min_rise), &octaves);
  }
  const auto places = static_cast<double>(longest - settings.min_after + 1);
  std::optional<Rise> rise = Best(values, octaves, false, places, settings);
  if (rise) {
    rise->reference += start;
    rise->begin += start;
    rise->end += start;
  }
  return rise;
}

std::vector<Rise> FindRises(Values values, double worst, const RiseSettings& settings) {
  std::vector<Rise> rises;
  const size_t start = SlowStart(values, settings.min_after);
  const Values settled = values.subspan(start);
  std::vector<double> left(settled.begin(), settled.end());  // without the rises found so far
  std::vector<size_t> places(left.size());
  std::iota(places.begin(), places.end(), start);
  while (rises.size() < kMostRises) {
    const std::optional<Rise> found = FindAnyRise(left, settings);
    if (!found || found->false_alarm > worst) break;
    Rise rise = *found;
    rise.reference = places[found->reference];
    rise.begin = places[found->begin];
    rise.end = places[found->end - 1] + 1;
    rises.push_back(rise);
    const auto cut = [&](auto* list) {
      list->erase(list->begin() + static_cast<ptrdiff_t>(found->begin),
                  list->begin() + static_cast<ptrdiff_t>(found->end));
    };
    cut(&left);
    cut(&places);
  }
  return rises;
}

}  // namespace flare::diag
