// SPDX-License-Identifier: Apache-2.0
// DeepSpeed, in three forms:
//
//   steps: 10 loss: 7.43 iter time (s): 1.234 samples/sec: 207.5
//   [2024-05-01 12:34:56,789] [INFO] [timer.py:260:stop] epoch=0/micro_step=20/global_step=10,
//       RunningAvgSamplesPerSec=43.1, CurrSamplesPerSec=43.4, MemAllocated=...
//   [2024-05-01 12:34:56,790] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=...
//
// The last two tell no step time; it is the time since the one before over the steps between.
#include <map>
#include <optional>

#include "diag/import/step_dialect.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

class DeepSpeedDialect : public StepDialect {
 public:
  const char* framework() const override { return "DeepSpeed"; }

  void Take(const OutputLine& line) override {
    if (Has(line.text, "iter time (s)")) return TakeTime(line);
    if (Has(line.text, "CurrSamplesPerSec=")) return TakeMoment(line, "global_step");
    if (Has(line.text, "[Rank 0] step=") && Has(line.text, "skipped=")) TakeMoment(line, "] step");
  }

 private:
  struct Moment {
    uint64_t step = 0, at_unix_ns = 0;
  };

  void TakeTime(const OutputLine& line) {
    const auto step = NumberAfter(line.text, "steps"),
               time = NumberAfter(line.text, "iter time (s)");
    if (!step || !time || *step < 0 || *step > 1e18) return;
    StepReading reading;
    reading.step = static_cast<uint64_t>(*step);
    reading.seconds = *time;
    reading.samples = NumberAfter(line.text, "samples/sec").value_or(0) * *time;
    reading.at_unix_ns = TimeOf(line);
    collector_.Add(line.origin.rank, reading);
  }

  void TakeMoment(const OutputLine& line, std::string_view key) {
    const auto step = NumberAfter(line.text, key);
    const uint64_t at = TimeOf(line);
    if (!step || at == 0 || *step < 0 || *step > 1e18) return;
    const auto number = static_cast<uint64_t>(*step);
    if (last_.size() >= StepCollector::kMostRanks && !last_.contains(line.origin.rank)) return;
    Moment& last = last_[line.origin.rank];
    if (last.at_unix_ns != 0 && number > last.step && at > last.at_unix_ns) {
      StepReading reading;
      reading.step = number;
      reading.seconds = static_cast<double>(at - last.at_unix_ns) * 1e-9 /
                        static_cast<double>(number - last.step);
      reading.at_unix_ns = at;
      collector_.Add(line.origin.rank, reading);
    }
    if (number != last.step) last = {number, at};
  }

  std::map<std::optional<Rank>, Moment> last_;
};

}  // namespace

std::unique_ptr<StepDialect> MakeDeepSpeedDialect() { return std::make_unique<DeepSpeedDialect>(); }

}  // namespace flare::import
