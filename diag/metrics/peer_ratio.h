// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "diag/model/job.h"

// The step times of each rank, beside those of the others in the same step.
//
//   ratio = duration of the step on this rank / median of its durations on all other ranks
//
// A step counts when at least half of the ranks, and three beside this one, tell it. Steps without
// a duration, made-up ones and the first of all are left out. At most kMostPeerValues durations are
// looked at: of longer jobs the newest steps.
namespace flare::diag {

inline constexpr size_t kMostPeerValues = size_t{1} << 23;

struct PeerSeries {
  Rank rank;
  std::vector<uint32_t> at;  // place of each value in PeerSteps::steps, ascending
  std::vector<double> ratio;
  std::vector<double> duration_ns;
};

struct PeerSteps {
  std::vector<StepId> steps;            // ascending
  std::vector<uint64_t> start_unix_ns;  // of the first rank that tells it; 0 = not told
  std::vector<PeerSeries> ranks;        // in order of rank
};

PeerSteps ComparePeers(const Job& job);

}  // namespace flare::diag
