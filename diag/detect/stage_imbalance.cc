// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/stage_imbalance.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "diag/detect/causes.h"
#include "diag/detect/words.h"
#include "diag/metrics/own_time.h"
#include "diag/metrics/statistics.h"

namespace flare::diag {
namespace {

// Own times of one step by stage.
using Row = std::map<std::string, std::vector<double>>;

struct Steps {
  std::map<StepId, Row> rows;
  std::map<std::string, std::vector<Rank>> stages;
  std::vector<double> durations;
  uint64_t since_unix_ns = 0;
};

// Empty unless every rank belongs to exactly one stage of at least two ranks.
Steps Arrange(const Job& job) {
  Steps steps;
  std::map<StepId, size_t> seen;
  for (const auto& [rank, record] : job.ranks) {
    std::string stage;
    for (const CommunicatorState& state : record.state.communicators) {
      if (!state.name.starts_with(kStagePrefix)) continue;
      if (!stage.empty()) return {};
      stage = state.name;
    }
    if (stage.empty()) return {};
    steps.stages[stage].push_back(rank);
    for (const RankStep& step : record.steps) {
      if (step.step.value >= kFirstPseudoStep || step.duration_ns == 0) continue;
      steps.rows[step.step][stage].push_back(static_cast<double>(OwnTimeOf(step).own_ns));
      steps.durations.push_back(static_cast<double>(step.duration_ns));
      ++seen[step.step];
      if (steps.since_unix_ns == 0) steps.since_unix_ns = step.start_unix_ns;
    }
  }
  std::erase_if(steps.rows, [&](const auto& row) { return seen[row.first] != job.ranks.size(); });
  for (const auto& [stage, ranks] : steps.stages) {
    if (ranks.size() < 2) return {};
  }
  return steps;
}

bool StandsOut(const Row& row, const std::string& stage, double min_excess) {
  const std::vector<double>& own = row.at(stage);
  const double least = *std::min_element(own.begin(), own.end());
  for (const auto& [other, times] : row) {
    if (other == stage) continue;
    if (least < (1 + min_excess) * *std::max_element(times.begin(), times.end())) return false;
  }
  return true;
}

double MedianOwn(const Steps& steps, const std::string& stage, bool of_others) {
  std::vector<double> values;
  for (const auto& [step, row] : steps.rows) {
    for (const auto& [name, times] : row) {
      if ((name == stage) == of_others) continue;
      values.insert(values.end(), times.begin(), times.end());
    }
  }
  return Median(std::move(values));
}

}  // namespace

std::vector<Verdict> DetectStageImbalance(const Job& job, uint64_t,
                                          const StageImbalanceSettings& settings) {
  const Steps steps = Arrange(job);
  if (steps.stages.size() < 2 || steps.rows.size() < settings.min_steps) return {};
  for (const auto& [stage, ranks] : steps.stages) {
    const auto count = static_cast<double>(std::count_if(
        steps.rows.begin(), steps.rows.end(),
        [&](const auto& row) { return StandsOut(row.second, stage, settings.min_excess); }));
    const auto all = static_cast<double>(steps.rows.size());
    if (count < settings.most_steps * all) continue;
    const double own = MedianOwn(steps, stage, false), others = MedianOwn(steps, stage, true);
    const double step = Median(steps.durations);
    const double lost = (own - others) / std::max(step, 1.0);
    if (lost < settings.min_lost_share) continue;
    Verdict verdict = MakeVerdict("regression", "load_imbalance");
    verdict.conclusive = true;
    verdict.confidence = 0.9;
    verdict.since_unix_ns = steps.since_unix_ns;
    // A balanced pipeline spreads the excess over all stages.
    const auto stages = static_cast<double>(steps.stages.size());
    verdict.lost_share = std::min(1.0, lost * (stages - 1) / stages);
    verdict.ranks = ranks;
    for (const auto& [rank, record] : job.ranks) {
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end())
        verdict.victims.push_back(rank);
    }
    char text[160];
    std::snprintf(text, sizeof text,
                  " computes %.0f %% longer than the other stages, on all %zu of its ranks and in "
                  "%.0f of %.0f steps",
                  100 * (own / std::max(others, 1.0) - 1), ranks.size(), count, all);
    verdict.summary =
        Capitalized(stage) + text + ": it has more to compute, and the others wait for it.";
    verdict.action =
        "Move layers away from this stage (the last one also computes the loss and the output "
        "embedding, the first one the input embedding), or split the embedding off.";
    verdict.evidence.push_back(
        {"Own time per step of its ranks, median; expected: median of the other stages", "own_time",
         own * 1e-6, "ms", others * 1e-6});
    verdict.evidence.push_back(
        {"Steps in which each of its ranks took longer than every other rank",
         "steps_slowest",
         count,
         "steps",
         {}});
    return {verdict};
  }
  return {};
}

}  // namespace flare::diag
