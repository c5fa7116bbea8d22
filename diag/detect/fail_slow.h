// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "diag/model/finding.h"
#include "diag/model/job.h"

// Finds the one rank that slows a running job down, from the recent steps of all ranks.
//
// Pure, as DetectHang. A rank is named only when it causes most of the waiting, does so in most
// steps, its own time (own_time.h) stands out from all others by a margin that matters, and a sign
// test over the steps says that chance alone would not do this: in each step every healthy rank is
// equally likely to be the last, so k of m steps has a binomial probability, multiplied by the
// number of ranks and windows looked at. `weak_false_alarm` makes a verdict a suspicion;
// `strict_false_alarm` makes it conclusive where the cause is proven too (slow_cause.h).
namespace flare::diag {

struct FailSlowSettings {
  uint32_t min_steps = 8;
  uint32_t max_steps = 160;
  uint64_t min_span_ns = 3'000'000'000;
  // Slowness that CPU time does not explain may be a busy machine for a while: nothing is said
  // before it has lasted so long, unless the wait for a CPU was measured ...
  uint64_t unexplained_span_ns = 30'000'000'000;
  uint64_t passing_span_ns = 60'000'000'000;  // ... and it stays a suspicion for so long
  double min_charge_share = 0.6;              // of the wait of all ranks, charged to the slow one
  double min_step_share = 0.75;               // of the steps in which it is the last
  double min_own_excess = 0.12;               // of its own time over the median of the others
  double min_wait_share = 0.08;               // of the step time that the others lose
  double strict_false_alarm = 1e-6;
  double weak_false_alarm = 1e-4;
  uint64_t newest_step_ns = 10'000'000'000;  // older than this: the job no longer steps
};

std::vector<Verdict> DetectFailSlow(const Job& job, uint64_t now_unix_ns,
                                    const FailSlowSettings& settings = {});

}  // namespace flare::diag
