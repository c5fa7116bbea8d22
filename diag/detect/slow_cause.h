// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "diag/detect/slow_window.h"
#include "diag/model/job.h"

// Why the rank of a SlowWindow is slow, and how sure that is.
//
// Two accounts of its time decide, each per step and against the median of the other ranks: CPU
// time of the process, and time for which the main thread waited for a CPU (cpu_wait.h). Work that
// takes longer shows in the first, a neighbour that takes the CPU away in the second.
//
//   CPU time                         wait for a CPU         says
//   ≥ 1/2 of the excess, ≥ 1/5 more  < 1/4 or never told    compute_slow, proven
//   ≥ 1/4 of the excess, ≥ 8 % more  any                    compute_slow, a suspicion for good
//   not known, or ranks spin         < 1/2 or not known     compute_slow, a suspicion for good
//   less than the wait               ≥ 1/2 of the excess    cpu_contention
//   less                             not known              cpu_contention when seen runnable
//   less                             less                   file_system_slow, cause_not_found
//
// A core or cache that is shared with other programs raises CPU time by 10 to 15 % while nobody is
// at fault: hence 1/5.
namespace flare::diag {

// Per step, in nanoseconds: time for which the main thread was ready to run and had no CPU.
struct StepCpuWait {
  double slow_ns = 0;
  std::optional<double> others_ns;  // median over the others; nothing when most did not tell
};

enum class Certainty {
  kProven,       // opens as soon as the statistics are certain
  kSuspicion,    // never opens
  kWhenItLasts,  // a suspicion at once, opens when it lasts
  kAfterAWhile,  // not said before it has lasted; opens when it lasts longer still
};

struct SlowCause {
  const char* id;  // docs/findings.md
  double confidence;
  Certainty certainty;
  const char* what;  // "computes longer", for "Rank 3 … than the others"
  const char* action;
  std::optional<StepCpuWait> cpu_wait;  // nothing when not known for the time of the window
};

SlowCause SlowCauseOf(const Job& job, const SlowWindow& window);

}  // namespace flare::diag
