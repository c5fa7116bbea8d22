// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "diag/model/job.h"
#include "flare/v1/query.pb.h"

// A job as people see it: summaries of its ranks and of itself. Pure functions.
namespace flare::diag {

// What a rank does: its open call, else its innermost Python frame, in words; empty when unknown.
std::string DoingInWords(const RankState& state);

// `silent`: nothing has been heard from the rank's daemon lately.
v1::RankSummary SummarizeRank(const RankRecord& rank, bool silent);

// Everything except state and open_findings.
v1::JobSummary SummarizeJob(const Job& job);

// Device work over the last `most_steps` steps, or of the whole recording of a profiler; without a
// device when none was seen.
v1::RankProfile ProfileOf(const RankRecord& rank, size_t most_steps);

bool IsOver(const RankRecord& rank);     // the process exited or died
bool IsStopped(const RankRecord& rank);  // by a signal or a debugger

}  // namespace flare::diag
