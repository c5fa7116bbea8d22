// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "diag/model/job.h"

// Who makes whom wait.
//
// For each collective, known by (communicator, sequence): every rank waits its duration minus the
// smallest duration of all members, and the sum is charged to the member with the smallest, which
// arrived last and waited for nobody. Source: CommunicatorStep::duration_us, in nanoseconds here.
// Collectives not observed on all members are left out: the last to arrive may be the one not seen.
//
// A rank that came late because it had waited on another communicator in the same step passes the
// charge on: of what it is charged on one communicator, the part min(1, its own wait on others /
// the longest wait it caused) goes to those it waited for, in proportion, and so on along the
// chain. Within one communicator nothing is passed on: asynchronous collectives do not delay the
// caller.
namespace flare::diag {

struct StepWait {
  StepId step;                      // of the charged rank
  std::map<Rank, uint64_t> caused;  // ns that all others together waited for this rank; no zeros
  uint64_t total_ns = 0;            // sum of `caused`
  // Of the ranks that arrived last: the largest wait in any single collective, as the mean over its
  // other members. A lower bound of what the rank costs the step: asynchronous collectives see the
  // same lateness again and again, so that their sum counts it more than once.
  std::map<Rank, uint64_t> longest;
};

// Steps first to last (both included), in order; steps without a complete collective are missing.
// Cost: the number of durations in these steps, times its logarithm.
std::vector<StepWait> WaitCaused(const Job& job, StepId first, StepId last);

}  // namespace flare::diag
