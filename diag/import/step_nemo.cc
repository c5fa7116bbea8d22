// SPDX-License-Identifier: Apache-2.0
// NeMo on PyTorch Lightning, in the postfix of its progress bar or as lines:
//
//   Epoch 0: :   1%| | 20/2000 [00:56<1:33:25, 2.83s/it, v_num=0, global_step=19.00,
//       consumed_samples=2560.0, train_step_timing in s=2.750]
//   Training epoch 0, iteration 10/99 | lr: 1.5e-06 | global_batch_size: 512 | global_step: 10 |
//       train_step_timing in s: 13.07 | consumed_samples: 5632
#include <optional>

#include "diag/import/step_dialect.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

class NemoDialect : public StepDialect {
 public:
  const char* framework() const override { return "NeMo"; }

  void Take(const OutputLine& line) override {
    constexpr std::string_view kTime = "train_step_timing in s";
    if (!Has(line.text, kTime)) return;
    const auto time = NumberAfter(line.text, kTime);
    auto step = NumberAfter(line.text, "global_step");
    if (!step) step = NumberAfter(line.text, "iteration");
    if (!time || !step || *step < 0 || *step > 1e18) return;
    StepReading reading;
    reading.step = static_cast<uint64_t>(*step);
    reading.seconds = *time;
    reading.samples = NumberAfter(line.text, "global_batch_size").value_or(0);
    reading.at_unix_ns = TimeOf(line);
    collector_.Add(line.origin.rank, reading);
  }
};

}  // namespace

std::unique_ptr<StepDialect> MakeNemoDialect() { return std::make_unique<NemoDialect>(); }

}  // namespace flare::import
