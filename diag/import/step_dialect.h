// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "diag/import/job_output.h"
#include "diag/import/step_collector.h"

// How one framework tells of its steps in the output of a job. Each has its file; step_reader.cc
// shows every line to all of them, and uses the one that told most steps.
namespace flare::import {

class StepDialect {
 public:
  virtual ~StepDialect() = default;
  virtual const char* framework() const = 0;
  virtual void Take(const OutputLine& line) = 0;
  virtual uint64_t readings() const { return collector_.readings(); }
  uint32_t world_size() const { return world_size_; }
  // Once, after the last line.
  virtual void MoveTo(Fragment* fragment) { collector_.MoveTo(fragment); }

 protected:
  // The time in the line, for the collector; 0 when it tells none.
  uint64_t TimeOf(const OutputLine& line);

  StepCollector collector_;
  uint32_t world_size_ = 0;  // as the framework tells it; 0 = not told
};

// Whether a line that begins like this is worth a look; for recognising files by their head.
bool LooksLikeStep(std::string_view line);

std::unique_ptr<StepDialect> MakeMegatronDialect();
std::unique_ptr<StepDialect> MakeDeepSpeedDialect();
std::unique_ptr<StepDialect> MakeNemoDialect();
std::unique_ptr<StepDialect> MakeTorchTitanDialect();
std::unique_ptr<StepDialect> MakeMlLogDialect();
std::unique_ptr<StepDialect> MakeAtorchDialect();
std::unique_ptr<StepDialect> MakeProgressBarDialect();

// "key: 12.5" and "key=12.5": the number after `key` and any of ":= ". Thousands may have commas.
std::optional<double> NumberAfter(std::string_view line, std::string_view key);

}  // namespace flare::import
