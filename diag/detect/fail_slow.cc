// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/fail_slow.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "diag/detect/causes.h"
#include "diag/detect/slow_cause.h"
#include "diag/detect/slow_window.h"
#include "diag/detect/words.h"

namespace flare::diag {
namespace {

std::string PercentText(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", share * 100);
  return text;
}

Evidence Number(std::string text, const char* metric, double value, const char* unit,
                std::optional<double> expected) {
  return {std::move(text), metric, value, unit, expected};
}

void AddEvidence(const Job& job, const SlowWindow& window, const SlowCause& cause,
                 Verdict* verdict) {
  const std::string who = Capitalized(RankText(job, window.slow));
  const std::string steps =
      " over steps " + std::to_string(window.first.value) + "-" + std::to_string(window.last.value);
  auto& evidence = verdict->evidence;
  evidence.push_back(
      Number(who + ": own time per step, median" + steps + "; expected: median of the others",
             "own_time", window.slow_own_ns * 1e-6, "ms", window.others_own_ns * 1e-6));
  evidence.push_back(Number(
      "Share of all waiting that is charged to it (durations of the same "
      "collective on all members)",
      "wait_caused_share", window.charge_share, "ratio", 1.0 / static_cast<double>(window.ranks)));
  evidence.push_back(Number(
      "Steps of " + std::to_string(window.steps) + " in which it was last; expected by chance",
      "steps_last", window.steps_last, "steps", static_cast<double>(window.steps) / window.ranks));
  evidence.push_back(Number("Probability of that by chance, for any rank", "false_alarm",
                            window.false_alarm, "ratio", {}));
  evidence.push_back(
      Number("Longest wait for it in a single collective per step, mean over the other "
             "ranks, lower bound of the median over steps",
             "wait", window.longest_ns * 1e-6, "ms", {}));
  if (window.slow_cpu_ns > 0 && window.others_cpu_ns > 0) {
    evidence.push_back(Number(who + ": CPU time of its process per step, median; expected: median "
                                    "of the others",
                              "cpu_time", window.slow_cpu_ns * 1e-6, "ms",
                              window.others_cpu_ns * 1e-6));
  }
  if (cause.cpu_wait) {
    std::optional<double> expected = cause.cpu_wait->others_ns;
    if (expected) *expected *= 1e-6;
    evidence.push_back(Number(who + ": time per step in which its main thread was ready to run and "
                                    "had no CPU; expected: median of the others",
                              "cpu_wait", cause.cpu_wait->slow_ns * 1e-6, "ms", expected));
  }
}

}  // namespace

std::vector<Verdict> DetectFailSlow(const Job& job, uint64_t now_unix_ns,
                                    const FailSlowSettings& settings) {
  if (job.ended) return {};
  const std::optional<SlowWindow> window = FindSlowWindow(job, now_unix_ns, settings);
  if (!window) return {};
  const SlowCause cause = SlowCauseOf(job, *window);
  const uint64_t lasted =
      window->end_unix_ns - std::min(window->since_unix_ns, window->end_unix_ns);
  if (cause.certainty == Certainty::kAfterAWhile && lasted < settings.unexplained_span_ns)
    return {};

  Verdict verdict = MakeVerdict("fail_slow", cause.id);
  const bool strict = window->false_alarm <= settings.strict_false_alarm;
  verdict.conclusive = strict && cause.certainty == Certainty::kProven;
  verdict.confidence = strict ? cause.confidence : cause.confidence * 0.7;
  verdict.since_unix_ns = window->since_unix_ns;
  const bool opens_later =
      cause.certainty == Certainty::kWhenItLasts || cause.certainty == Certainty::kAfterAWhile;
  if (strict && opens_later) {
    verdict.open_after_unix_ns = window->since_unix_ns + settings.passing_span_ns;
  }
  const double wait_share = std::min(1.0, window->wait_ns / std::max(window->step_ns, 1.0));
  verdict.lost_share =
      wait_share * static_cast<double>(window->ranks - 1) / static_cast<double>(window->ranks);
  const double excess = window->slow_own_ns / std::max(window->others_own_ns, 1.0) - 1;
  verdict.summary = Capitalized(RankText(job, window->slow)) + " " + cause.what +
                    " than the others (" + PercentText(excess) + " more own time per step" +
                    (window->from_start ? ", in all steps seen"
                                        : ", since step " + std::to_string(window->onset.value)) +
                    "); it costs each of the others about " +
                    DurationText(static_cast<uint64_t>(window->wait_ns)) + " of each " +
                    DurationText(static_cast<uint64_t>(window->step_ns)) + " step.";
  verdict.action = cause.action;
  verdict.ranks = {window->slow};
  const std::string& node = job.ranks.at(window->slow).node;
  if (!node.empty()) verdict.nodes = {node};
  for (const auto& [rank, record] : job.ranks) {
    if (rank != window->slow) verdict.victims.push_back(rank);
  }
  AddEvidence(job, *window, cause, &verdict);
  return {verdict};
}

}  // namespace flare::diag
