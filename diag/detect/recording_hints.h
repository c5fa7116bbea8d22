// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "diag/model/finding.h"
#include "diag/model/job.h"

// What a profile shows to be wrong by itself, without a healthy run beside it.
//
// Pure. Each question looks at the marked steps of every recorded rank and asks that the host does
// something in most of them that costs a part of the step which no healthy program spends on it,
// while the device stands still at least as long. They concern the program, so no rank is blamed.
// Only the data loader, whose wait is an interval of its own with an idle device beside it, is
// proof; the others are suspicions.
namespace flare::diag {

struct RecordingSettings {
  uint32_t min_steps = 3;    // marked steps of a rank; one may be an exception, two an accident
  double most_steps = 0.75;  // of them in which it must show
  // A loader that keeps up hands a batch over in about a millisecond. At a fifth of the step it
  // costs more than any other single remedy would bring.
  double data_load_share = 0.20;
  // Collections of the youngest generations take well below a per mille of a step.
  double gc_share = 0.02;
  // After each synchronise the device stands still until the host has returned and launched anew:
  // some 10 us, whatever the hardware.
  double relaunch_ns = 10'000;
  double synchronize_share = 0.03;
  // The caching allocator asks the driver during the first steps only; cudaFree also stops the
  // device.
  double memory_share = 0.03;
  double min_idle_share = 0.10;  // below that the device has work and nothing is lost
};

std::vector<Verdict> DetectInRecording(const Job& job, uint64_t now_unix_ns,
                                       const RecordingSettings& settings = {});

}  // namespace flare::diag
