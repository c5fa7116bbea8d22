// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "diag/detect/fail_slow.h"
#include "diag/model/job.h"

// The statistics behind DetectFailSlow: looks for the stretch of recent steps that says most
// clearly that one rank makes the others wait.
namespace flare::diag {

// Medians over the steps of the window; times in nanoseconds per step.
struct SlowWindow {
  Rank slow;
  uint32_t ranks = 0;
  StepId first, last;
  uint32_t steps = 0;
  uint32_t steps_last = 0;  // in which it was charged most
  double false_alarm = 1;   // probability of steps_last or more by chance, for any rank and window
  double charge_share = 0;  // of all waiting
  double step_ns = 0;
  // What each of the others loses, at least: `longest_ns`, or more where CPU time tells: the least
  // of summed wait, own excess and CPU excess.
  double wait_ns = 0;
  double longest_ns = 0;  // largest wait in a single collective, mean over the others; lower bound
  double slow_own_ns = 0, others_own_ns = 0;  // of the others: median over ranks
  double slow_compute_ns = 0, others_compute_ns = 0;
  double data_excess_ns = 0;
  double slow_cpu_ns = 0, others_cpu_ns = 0;  // 0 unknown
  bool cpu_tells = false;      // CPU time is known, and the others do not spin while they wait
  uint64_t since_unix_ns = 0;  // begin of the slowness, as far as steps are kept
  uint64_t end_unix_ns = 0;
  StepId onset;             // first slow step
  bool from_start = false;  // slow in all kept steps
};

// The best window that passes every condition of `settings` at the weak level; nothing when the job
// no longer steps, has fewer than two ranks, or has no slow rank.
std::optional<SlowWindow> FindSlowWindow(const Job& job, uint64_t now_unix_ns,
                                         const FailSlowSettings& settings);

}  // namespace flare::diag
