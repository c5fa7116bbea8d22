// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "diag/model/job.h"

// Step times in the order of steps, for change_point.h.
//
// Left out: the first step of all (start-up and compilation, while there are others), steps without
// a duration, and made-up steps (kFirstPseudoStep). Steps may be missing in between, for they were
// not kept or not told; a log may tell every tenth one.
namespace flare::diag {

inline constexpr size_t kSeriesRanks = 8;

struct StepSeries {
  std::vector<StepId> steps;            // ascending
  std::vector<uint64_t> start_unix_ns;  // 0 = not told
  std::vector<double> duration_ns;      // positive
  std::vector<double> work;             // 0 = not told

  size_t size() const { return steps.size(); }
  // Time from the beginning of value `begin` to the end of value `end` - 1: a step that is missing
  // took as long as the next one told.
  double SpanNs(size_t begin, size_t end) const;
};

StepSeries SeriesOf(const RankRecord& rank);
// Medians over ranks, of at most kSeriesRanks evenly chosen ones: ranks of a job step together.
StepSeries SeriesOf(const Job& job);

}  // namespace flare::diag
