// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "diag/model/job.h"

// What a rank spends of a step on itself rather than in communication, in nanoseconds.
//
//   own     = step duration - communication (union of the intervals with a collective or a
//             point-to-point wait running, RankStep::communication_ns), not below 0
//   compute = own - data load - checkpoint - garbage collection, not below 0
//
// Communication that overlaps computing counts as communication. A rank that others wait for spends
// little in communication, so own time magnifies a lag: it tells who is slow, not by how much the
// job would gain.
namespace flare::diag {

struct OwnTime {
  uint64_t own_ns = 0;
  uint64_t data_load_ns = 0;
  uint64_t checkpoint_ns = 0;
  uint64_t gc_ns = 0;
  uint64_t compute_ns = 0;
};

OwnTime OwnTimeOf(const RankStep& step);

}  // namespace flare::diag
