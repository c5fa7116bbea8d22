// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/detector_list.h"

#include <array>

#include "diag/detect/fail_slow.h"
#include "diag/detect/hang.h"
#include "diag/detect/library_signals.h"

namespace flare::diag {
namespace {

constexpr std::array kDetectors = {
    Detector{"hang", [](const Job& job, uint64_t now) { return DetectHang(job, now); }},
    Detector{"library_signals",
             [](const Job& job, uint64_t now) { return DetectLibrarySignals(job, now); }},
    Detector{"fail_slow", [](const Job& job, uint64_t now) { return DetectFailSlow(job, now); }},
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
