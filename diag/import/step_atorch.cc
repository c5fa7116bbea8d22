// SPDX-License-Identifier: Apache-2.0
// Event logs of DLRover's trainer (ATorch):
//
//   [2025-04-21T23:53:58.607288] [426] [4158e1da] [AtorchTrainerV2] [#step] [BEGIN]
//       {"global_step": 177019, ...}
//   [2025-04-21T23:54:19.126514] [426] [4158e1da] [AtorchTrainerV2] [#step] [END]
//       {"global_step": 177020, ...}
//
// A step is what lies between BEGIN and END of one id; it is numbered as its END says.
#include <map>
#include <optional>
#include <string>

#include "diag/import/step_dialect.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

constexpr size_t kMostOpen = 4096;

class AtorchDialect : public StepDialect {
 public:
  const char* framework() const override { return "ATorch"; }

  void Take(const OutputLine& line) override {
    if (!Has(line.whole, "[#step]")) return;
    const auto step = NumberAfter(line.whole, "\"global_step\"");
    const uint64_t at = TimeOf(line);
    if (!step || at == 0 || *step < 0 || *step > 1e18) return;
    const std::string id(Between(line.whole, "] [", "[#step]").value_or(""));  // pid and id
    if (Has(line.whole, "[BEGIN]")) {
      if (open_.size() >= kMostOpen) open_.clear();
      open_[id] = at;
    } else if (const auto begin = open_.find(id); begin != open_.end()) {
      if (at > begin->second) {
        StepReading reading;
        reading.step = static_cast<uint64_t>(*step);
        reading.seconds = static_cast<double>(at - begin->second) * 1e-9;
        reading.at_unix_ns = at;
        collector_.Add(line.origin.rank, reading);
      }
      open_.erase(begin);
    }
  }

 private:
  std::map<std::string, uint64_t> open_;
};

}  // namespace

std::unique_ptr<StepDialect> MakeAtorchDialect() { return std::make_unique<AtorchDialect>(); }

}  // namespace flare::import
