// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "diag/model/finding.h"
#include "diag/model/job.h"

// Finds what libraries said themselves: CUDA, NCCL and PyTorch errors, time-outs, fallbacks and
// processes that do not answer (Job::signals). What the host and its devices say is not read here.
//
// An error code or an exception is conclusive. A lost connection is not: it names a victim, and is
// silent where something else explains the end. What a job survives (a fallback, GPU-direct off) is
// a suspicion of low severity. Pure.
namespace flare::diag {

std::vector<Verdict> DetectLibrarySignals(const Job& job, uint64_t now_unix_ns);

}  // namespace flare::diag
