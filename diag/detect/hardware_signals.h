// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "diag/model/finding.h"
#include "diag/model/job.h"

// Findings from what hosts and devices say (Job::signals): driver errors, memory, clocks, links,
// PCIe, processes killed or crashed. signal_judgement.h says what each statement is worth; one
// verdict gathers those about one node that have cause and team in common.
//
// Pure. A verdict names ranks only where a statement does. Nothing is said about time lost: a
// statement does not tell what it cost the job.
namespace flare::diag {

std::vector<Verdict> DetectSignals(const Job& job, uint64_t now_unix_ns);

}  // namespace flare::diag
