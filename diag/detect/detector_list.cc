// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/detector_list.h"

#include <array>

#include "diag/detect/fail_slow.h"
#include "diag/detect/hang.h"
#include "diag/detect/hardware_signals.h"
#include "diag/detect/late_rank.h"
#include "diag/detect/library_signals.h"
#include "diag/detect/recording_hints.h"
#include "diag/detect/slow_ranks.h"
#include "diag/detect/slow_shift.h"
#include "diag/detect/stacks.h"
#include "diag/detect/stage_imbalance.h"

namespace flare::diag {
namespace {

constexpr std::array kDetectors = {
    Detector{"hang", [](const Job& job, uint64_t now) { return DetectHang(job, now); }},
    Detector{"library_signals",
             [](const Job& job, uint64_t now) { return DetectLibrarySignals(job, now); }},
    Detector{"fail_slow", [](const Job& job, uint64_t now) { return DetectFailSlow(job, now); }},
    Detector{"late_rank", [](const Job& job, uint64_t now) { return DetectLateRank(job, now); }},
    Detector{"recording", [](const Job& job, uint64_t now) { return DetectInRecording(job, now); }},
    Detector{"stage_imbalance",
             [](const Job& job, uint64_t now) { return DetectStageImbalance(job, now); }},
    Detector{"slow_ranks", [](const Job& job, uint64_t now) { return DetectSlowRanks(job, now); }},
    Detector{"slow_shift", [](const Job& job, uint64_t now) { return DetectSlowShift(job, now); }},
    Detector{"stacks", [](const Job& job, uint64_t now) { return DetectStacks(job, now); }},
    Detector{"signals", [](const Job& job, uint64_t now) { return DetectSignals(job, now); }},
};

}  // namespace

std::span<const Detector> Detectors() { return kDetectors; }

std::vector<Verdict> RunDetectors(const Job& job, uint64_t now_unix_ns) {
  std::vector<Verdict> verdicts;
  for (const Detector& detector : Detectors()) {
    std::vector<Verdict> found = detector.detect(job, now_unix_ns);
    verdicts.insert(verdicts.end(), std::make_move_iterator(found.begin()),
                    std::make_move_iterator(found.end()));
  }
  return verdicts;
}

}  // namespace flare::diag
