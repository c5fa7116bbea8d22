// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

// Spans of time on one clock, and how much time they cover together.
namespace flare::daemon {

struct Interval {
  uint64_t start = 0;
  uint64_t end = 0;
};

// Length of the union of `intervals` inside [from, to]. Sorts its argument.
inline uint64_t CoveredLength(std::vector<Interval>* intervals, uint64_t from, uint64_t to) {
  const auto earlier = [](const Interval& a, const Interval& b) { return a.start < b.start; };
  if (!std::is_sorted(intervals->begin(), intervals->end(), earlier)) {
    std::sort(intervals->begin(), intervals->end(), earlier);
  }
  uint64_t covered = 0;
  uint64_t reached = from;
  for (const Interval& i : *intervals) {
    const uint64_t start = std::max(i.start, reached);
    const uint64_t end = std::min(i.end, to);
    if (end <= start) continue;
    covered += end - start;
    reached = end;
  }
  return covered;
}

}  // namespace flare::daemon
