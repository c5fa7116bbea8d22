// SPDX-License-Identifier: Apache-2.0
// Megatron-LM, Megatron-DeepSpeed and what grew from them:
//
//    iteration  10/ 50 | consumed samples: 80 | elapsed time per iteration (ms): 2152.2 | ... |
//    global batch size: 4 | ... | throughput per GPU (TFLOP/s/GPU): 412.3 |
//
// Printed by the last rank. With a log interval the time is the mean of that many iterations.
#include <optional>

#include "diag/import/step_dialect.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

// "iteration  42780/ 115311 |": the first number.
std::optional<uint64_t> Iteration(std::string_view line) {
  constexpr std::string_view kWord = "iteration ";
  for (size_t at = line.find(kWord); at != std::string_view::npos; at = line.find(kWord, at + 1)) {
    std::string_view rest = Trim(line.substr(at + kWord.size()));
    const auto number = LeadingNumber<uint64_t>(rest);
    const size_t end = rest.find_first_not_of("0123456789");
    if (number && end != std::string_view::npos && rest[end] == '/') return number;
  }
  return std::nullopt;
}

class MegatronDialect : public StepDialect {
 public:
  const char* framework() const override { return "Megatron"; }

  void Take(const OutputLine& line) override {
    if (const auto world = Between(line.text, "using world size: ", ",")) {
      world_size_ = LeadingNumber<uint32_t>(*world).value_or(world_size_);
    }
    constexpr std::string_view kTime = "elapsed time per iteration (";
    const size_t at = line.text.find(kTime);
    if (at == std::string_view::npos) return;
    const std::optional<uint64_t> iteration = Iteration(line.text.substr(0, at));
    const std::string_view unit = line.text.substr(at + kTime.size());
    const bool milliseconds = unit.starts_with("ms)"), seconds = unit.starts_with("s)");
    const auto time = NumberAfter(unit, milliseconds ? "ms)" : "s)");
    if (!iteration || !time || (!milliseconds && !seconds)) return;
    StepReading reading;
    reading.step = *iteration;
    reading.seconds = milliseconds ? *time / 1e3 : *time;
    reading.samples = NumberAfter(line.text, "global batch size").value_or(0);
    const double length = NumberAfter(line.text, "actual seqlen").value_or(0);
    reading.tokens = reading.samples * length;
    auto teraflops = NumberAfter(line.text, "throughput per GPU (TFLOP/s/GPU)");
    if (!teraflops) teraflops = NumberAfter(line.text, "TFLOPs");
    reading.flop = teraflops.value_or(0) * 1e12 * reading.seconds;
    reading.at_unix_ns = TimeOf(line);
    collector_.Add(line.origin.rank, reading);
  }
};

}  // namespace

std::unique_ptr<StepDialect> MakeMegatronDialect() { return std::make_unique<MegatronDialect>(); }

}  // namespace flare::import
