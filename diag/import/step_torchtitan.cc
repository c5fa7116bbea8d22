// SPDX-License-Identifier: Apache-2.0
// torchtitan:
//
//   [rank0]:[titan] 2025-01-01 00:00:00,123 - root - INFO - step: 10  loss: 7.1  memory: ...
//       tps: 5,432  tflops: 88.2  mfu: 28.3%
//
// It tells tokens per second of one device (`wps` in old versions), not the time of a step.
#include <optional>

#include "diag/import/step_dialect.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

class TorchTitanDialect : public StepDialect {
 public:
  const char* framework() const override { return "torchtitan"; }

  void Take(const OutputLine& line) override {
    if (!Has(line.text, "step:") || !Has(line.text, "ps:")) return;
    const auto step = NumberAfter(line.text, "step");
    auto rate = NumberAfter(line.text, " tps");
    if (!rate) rate = NumberAfter(line.text, " wps");
    if (!step || !rate || *step < 0 || *step > 1e18) return;
    StepReading reading;
    reading.step = static_cast<uint64_t>(*step);
    reading.rate = *rate;
    reading.at_unix_ns = TimeOf(line);
    collector_.Add(line.origin.rank, reading);
  }
};

}  // namespace

std::unique_ptr<StepDialect> MakeTorchTitanDialect() {
  return std::make_unique<TorchTitanDialect>();
}

}  // namespace flare::import
