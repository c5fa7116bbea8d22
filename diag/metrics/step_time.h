// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "diag/model/job.h"

// How long a step takes.
//
// Step time: start of a step to the start of the next on one rank, in nanoseconds, from
// RankStep::duration_ns. A job's step time is taken over the last kStepTimeWindow steps of its
// ranks (of at most kStepTimeRanks of them, evenly chosen: ranks of a job step together). The very
// first step of a rank holds start-up and compilation and is left out while there are others.
namespace flare::diag {

inline constexpr size_t kStepTimeWindow = 64;
inline constexpr size_t kStepTimeRanks = 32;

struct StepTime {
  uint32_t steps = 0;  // rank steps looked at; 0 = nothing known
  uint64_t median_ns = 0;
  uint64_t slow_ns = 0;    // 95th percentile
  uint64_t spread_ns = 0;  // robust spread (statistics.h)
};

StepTime StepTimeOf(const RankRecord& rank);
StepTime StepTimeOf(const Job& job);

}  // namespace flare::diag
