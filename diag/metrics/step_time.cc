// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/step_time.h"

#include <algorithm>
#include <vector>

#include "diag/metrics/statistics.h"

namespace flare::diag {
namespace {

void Collect(const RankRecord& rank, std::vector<double>* durations) {
  const size_t begin = rank.steps.size() - std::min(rank.steps.size(), kStepTimeWindow);
  for (size_t i = begin; i < rank.steps.size(); ++i) {
    const RankStep& step = rank.steps[i];
    if (step.step.value == 0 && rank.steps.size() > 1) continue;
    durations->push_back(static_cast<double>(step.duration_ns));
  }
}

StepTime Summarize(const std::vector<double>& durations) {
  StepTime result;
  result.steps = static_cast<uint32_t>(durations.size());
  result.median_ns = static_cast<uint64_t>(Median(durations));
  result.slow_ns = static_cast<uint64_t>(Quantile(durations, 0.95));
  result.spread_ns = static_cast<uint64_t>(RobustSpread(durations));
  return result;
}

}  // namespace

StepTime StepTimeOf(const RankRecord& rank) {
  std::vector<double> durations;
  Collect(rank, &durations);
  return Summarize(durations);
}

StepTime StepTimeOf(const Job& job) {
  std::vector<double> durations;
  const size_t stride = job.ranks.size() / kStepTimeRanks + 1;
  size_t index = 0;
  for (const auto& [rank, record] : job.ranks) {
    if (index++ % stride == 0) Collect(record, &durations);
  }
  return Summarize(durations);
}

}  // namespace flare::diag
