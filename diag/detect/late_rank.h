// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "diag/model/finding.h"
#include "diag/model/job.h"

// Finds ranks that come late to collectives again and again within the few steps of a profile.
//
// Pure, as DetectFailSlow, which needs more steps and time than a profile has, and takes over where
// there are enough. Every rank must have been recorded with its device (RankRecord::recording). A
// rank is named when it is the last to arrive more often than chance explains, the others lose
// enough by it, and its own time on the device stands out; then the recording tells what that time
// is: computing longer with the same kernels, more work, or a device that stands still because the
// host launches late.
//
// Nothing here is conclusive: a profile shows a moment, and recording it slows the host down.
namespace flare::diag {

struct LateRankSettings {
  double false_alarm = 1e-4;     // of being last so often, for any rank (late_arrivals.h)
  double min_wait_share = 0.05;  // of the recorded time that each of the others waits for it
  double min_own_excess = 0.12;  // of its own device time over that of ranks that are not late
  double explained = 0.5;        // share of the excess that names its cause
  double same_kernels = 0.02;    // as many kernels as the others, within this
};

std::vector<Verdict> DetectLateRank(const Job& job, uint64_t now_unix_ns,
                                    const LateRankSettings& settings = {});

}  // namespace flare::diag
