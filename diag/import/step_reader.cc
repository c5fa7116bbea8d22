// SPDX-License-Identifier: Apache-2.0
// The reader of training steps in the output of a job.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "diag/import/log_time.h"
#include "diag/import/step_dialect.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

constexpr uint64_t kFewSteps = 56;  // RiseSettings: fewer cannot show a change

class StepReader : public OutputReader {
 public:
  StepReader() {
    // Of dialects that tell equally many steps the first is used: it tells most about each.
    dialects_.push_back(MakeMegatronDialect());
    dialects_.push_back(MakeNemoDialect());
    dialects_.push_back(MakeMlLogDialect());
    dialects_.push_back(MakeDeepSpeedDialect());
    dialects_.push_back(MakeTorchTitanDialect());
    dialects_.push_back(MakeAtorchDialect());
    dialects_.push_back(MakeProgressBarDialect());
  }

  void Take(const OutputLine& line) override {
    for (const auto& dialect : dialects_) dialect->Take(line);
  }

  bool found() const override {
    return std::any_of(dialects_.begin(), dialects_.end(),
                       [](const auto& dialect) { return dialect->readings() > 0; });
  }

  void End(Fragment* fragment) override {
    StepDialect* best = nullptr;
    uint32_t world_size = 0;
    for (const auto& dialect : dialects_) {
      world_size = std::max(world_size, dialect->world_size());
      if (dialect->readings() > (best == nullptr ? 0 : best->readings())) best = dialect.get();
    }
    best->MoveTo(fragment);
    for (RankFragment& rank : fragment->ranks) {
      if (rank.world_size == 0) rank.world_size = world_size;
    }
    if (fragment->framework.empty()) fragment->framework = best->framework();
    for (const auto& dialect : dialects_) {
      if (dialect.get() == best || dialect->readings() == 0) continue;
      fragment->notes.push_back("steps are also told by " + std::string(dialect->framework()) +
                                "; those of " + best->framework() + " are used");
    }
    if (best->readings() < kFewSteps) {
      fragment->notes.push_back(Counted(best->readings(), "step") +
                                " told: too few to see whether the job became slower");
    }
  }

 private:
  std::vector<std::unique_ptr<StepDialect>> dialects_;
};

}  // namespace

std::unique_ptr<OutputReader> MakeStepReader() { return std::make_unique<StepReader>(); }

uint64_t StepDialect::TimeOf(const OutputLine& line) {
  const std::optional<LogTime> time = FindLogTime(line.whole);
  if (!time) return 0;
  if (time->local) collector_.LocalTime();
  return time->unix_ns;
}

std::optional<double> NumberAfter(std::string_view line, std::string_view key) {
  for (size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    std::string_view rest = line.substr(at + key.size());
    const size_t begin = rest.find_first_not_of(":= \t");
    if (begin == 0 || begin == std::string_view::npos) continue;
    rest = rest.substr(begin);
    // "5,432" is one number; "5, 432" and "5,x" are not.
    std::string plain;
    size_t i = 0;
    while (i < rest.size() && plain.size() < 40) {
      const bool comma = rest[i] == ',' && i > 0 && IsDigit(rest[i - 1]) && i + 3 < rest.size() &&
                         IsDigit(rest[i + 1]) && IsDigit(rest[i + 2]) && IsDigit(rest[i + 3]);
      if (comma) {
        ++i;
        continue;
      }
      if (rest[i] == ',' || IsSpace(rest[i])) break;
      plain.push_back(rest[i++]);
    }
    if (const auto number = LeadingDecimal(plain)) return number;
  }
  return std::nullopt;
}

bool LooksLikeStep(std::string_view line) {
  return Has(line, "elapsed time per iteration") || Has(line, ":::MLLOG") ||
         (Has(line, "steps: ") && Has(line, "samples/sec")) || Has(line, "CurrSamplesPerSec") ||
         Has(line, "train_step_timing in s") ||
         (Has(line, "step:") && (Has(line, "tps:") || Has(line, "wps:"))) ||
         (Has(line, "[#step]") && Has(line, "[BEGIN]")) || Has(line, "it/s") || Has(line, "s/it");
}

}  // namespace flare::import
