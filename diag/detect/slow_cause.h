// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "diag/detect/slow_window.h"
#include "diag/model/job.h"

// Why the rank of a SlowWindow is slow, and how sure that is.
//
// The excess of its own time is no measure of its lag: it is magnified where communication overlaps
// computing (own_time.h). So the lag is added up from what the kernel counts, each per step and as
// the excess over the median of the other ranks, not below 0:
//
//   lag = CPU time + wait for a CPU + rest,  rest = time computing - CPU time - wait for a CPU
//
// CPU time is that of the process; the wait for a CPU is the main thread's (cpu_wait.h), and part
// of the rest where it is not known. Work that takes longer shows in the first, a neighbour that
// takes the CPU away in the second, a slow disk in the third. On a full machine work that takes
// longer also waits longer: that part of the wait, by the others' ratio, counts with the CPU time.
//
//   CPU time                       wait for a CPU          says
//   >= 1/2 of lag, >= 1/5 more     < 1/4 of lag, or        compute_slow, proven
//                                  never told
//   >= 1/4 of lag, >= 8 % more     any                     compute_slow, suspected for good
//   not known, or ranks spin       < 1/2 or not known      compute_slow, suspected for good
//   less than the wait             >= 1/2 of lag           cpu_contention
//   less                           not known               cpu_contention when seen runnable
//   less                           less                    file_system_slow, cause_not_found
//
// A core or cache that is shared with other programs raises CPU time by 10 to 15 % while nobody is
// at fault: hence 1/5. Several busy threads prove nothing: some may spin for another that waits.
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
