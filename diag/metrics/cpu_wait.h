// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "diag/model/job.h"

// How much of its time a rank waited for a CPU between the last two looks at it.
//
//   share = growth of ProcessState::run_delay_ns / time between the looks, at most 1
//
// run_delay_ns is the second field of Linux' /proc/PID/task/TID/schedstat for the main thread: time
// spent runnable on a run queue while something else had the CPU. Other threads of the process may
// have waited more, so this is a lower bound of what contention costs a rank.
namespace flare::diag {

struct CpuWait {
  double share = 0;  // 0 to 1
  uint64_t from_unix_ns = 0, to_unix_ns = 0;
};

// Nothing when either look did not tell, or the looks are less than a second apart.
std::optional<CpuWait> CpuWaitOf(const RankRecord& record);

}  // namespace flare::diag
