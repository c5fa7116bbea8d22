// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "diag/model/finding.h"
#include "diag/model/job.h"

// The one table of detectors. A new detector is one file and one line in detector_list.cc.
//
// Detectors are pure functions of a job and a time; call them as often as wanted (the engine does
// so about twice a second per job), from any thread that holds the job still.
namespace flare::diag {

struct Detector {
  const char* name;
  std::vector<Verdict> (*detect)(const Job& job, uint64_t now_unix_ns);
};

std::span<const Detector> Detectors();

// The verdicts of all detectors in the order of the table.
std::vector<Verdict> RunDetectors(const Job& job, uint64_t now_unix_ns);

}  // namespace flare::diag
