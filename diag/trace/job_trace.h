// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "diag/store/store.h"
#include "diag/trace/trace_writer.h"

// A job as a trace: one process a rank, one slice a step, counters of its device, and the findings.
namespace flare::diag {

// Everything that FLARE knows of each step travels in the slice's arguments, so that importing the
// trace gives the same numbers. False when the file could not be written.
bool WriteJobTrace(const JobMemory& job, TraceWriter* writer);

}  // namespace flare::diag
