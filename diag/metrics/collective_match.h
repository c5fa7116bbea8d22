// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "diag/model/job.h"

// The same collective as its members saw it.
namespace flare::diag {

struct Arrival {
  Rank rank;
  StepId step;
  uint32_t duration_us;
};

struct MatchedCollective {
  CommId communicator;
  uint64_t sequence = 0;
  std::vector<Arrival> arrivals;  // one for each member, in order of rank; at least two

  // The member with the smallest duration, which arrived last and waited for nobody.
  const Arrival& Last() const;
};

// Collectives of steps first to last (both included) that were observed on all members: the group
// size where a rank told it, else everybody who ever used the communicator. The others are left
// out: the last to arrive may be the one not seen. Ordered by communicator, else not.
std::vector<MatchedCollective> MatchCollectives(const Job& job, StepId first, StepId last);

}  // namespace flare::diag
