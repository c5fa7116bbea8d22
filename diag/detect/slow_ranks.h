// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "diag/model/finding.h"
#include "diag/model/job.h"

// Finds ranks whose own steps became longer than those of the others, where each rank's step time
// is all that is known: tables of batch times, steps of ranks that do not wait for each other.
//
// Pure, as DetectHang. Each step of a rank is compared with the median of the others in the same
// step; what slows all of them down cancels out. A rank is named when that ratio rose
// (change_point.h) by at least `min_rise`, beyond chance for any of the ranks and beyond its own
// history, and its own time rose too: it did not fall behind because others got faster. Ranks that
// rose together make one verdict; more than half of the ranks together are nobody's fault. In
// recorded jobs (Job::recorded) the rise may be over again.
//
// In recorded jobs also ranks that were slower all along: at least `steady_ratio` times the slowest
// of the others, in every quarter of the steps. Such ranks may have more to do, so this stays a
// suspicion.
//
// Nothing is said about jobs with communication: there fail_slow.h knows who waits for whom.
namespace flare::diag {

struct SlowRanksSettings {
  double strict_false_alarm = 1e-9;
  double weak_false_alarm = 1e-6;
  double min_rise = 0.08;  // FailSlowSettings::min_wait_share
  double min_over_wander = 2;
  double steady_ratio = 1.5;
  size_t min_ranks = 4;
  uint64_t min_slow_ns = 60'000'000'000;     // of a job that runs
  uint64_t newest_step_ns = 10'000'000'000;  // as in SlowShiftSettings
};

std::vector<Verdict> DetectSlowRanks(const Job& job, uint64_t now_unix_ns,
                                     const SlowRanksSettings& settings = {});

}  // namespace flare::diag
