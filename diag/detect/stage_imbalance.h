// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "diag/model/finding.h"
#include "diag/model/job.h"

// Finds a pipeline stage that has more to compute than the others.
//
// Pure. Stages are communicators named kStagePrefix and a number, as importers of pipeline
// timelines make them, so that running jobs are not looked at. A stage is named when each of its
// ranks has more own time (own_time.h) than every rank of every other stage, by a margin, in most
// steps: a slow device would show on one rank of the stage, a heavier stage shows on all.
namespace flare::diag {

inline constexpr char kStagePrefix[] = "pipeline stage ";

struct StageImbalanceSettings {
  uint32_t min_steps = 8;
  double min_excess = 0.10;  // of the least of its ranks over the most of the others
  double most_steps = 0.75;
  double min_lost_share = 0.05;  // of the step
};

std::vector<Verdict> DetectStageImbalance(const Job& job, uint64_t now_unix_ns,
                                          const StageImbalanceSettings& settings = {});

}  // namespace flare::diag
