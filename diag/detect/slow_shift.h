// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "diag/model/finding.h"
#include "diag/model/job.h"

// Finds the step since which the whole job takes longer, from nothing but step times.
//
// Pure, as DetectHang. The rise must last to the newest step (change_point.h) and be more than
// chance (`weak_false_alarm` for a suspicion, `strict_false_alarm` to be conclusive), more than the
// job's own history shows (`min_over_wander` times the largest rise of a stretch that long), abrupt
// (a drift is no change), long enough to be no passing burden of the machine, and not the program's
// own doing: where it tells how much work a step has, the time for the same work must have risen as
// well; where it does not, the calls and kernels of a step must be the same as before.
//
// Nobody is blamed: who is slow is for fail_slow.h and slow_ranks.h, and when these name a rank
// this says nothing. What a host says close to that step, or a phase that grew, names the cause.
namespace flare::diag {

struct SlowShiftSettings {
  double strict_false_alarm = 1e-9;
  double weak_false_alarm = 1e-6;
  double min_rise = 0.02;
  double min_over_wander = 2;
  double min_abruptness = 0.5;
  uint64_t min_slow_ns = 60'000'000'000;
  // Of a job that runs, before the rise: a history of seconds tells nothing about minutes.
  uint64_t min_history_ns = 60'000'000'000;
  uint64_t newest_step_ns = 10'000'000'000;  // older, and older than 3 steps: it no longer steps
};

std::vector<Verdict> DetectSlowShift(const Job& job, uint64_t now_unix_ns,
                                     const SlowShiftSettings& settings = {});

}  // namespace flare::diag
