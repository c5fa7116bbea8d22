// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/fail_slow.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "diag/detect/causes.h"
#include "diag/detect/slow_window.h"
#include "diag/detect/words.h"

namespace flare::diag {
namespace {

constexpr double kExplained = 0.5;      // share of the excess that names its cause
constexpr double kCpuExplained = 0.25;  // on a machine with too few cores CPU time moves less
constexpr double kMinCpuExcess = 0.08;

struct Blame {
  const char* cause;
  double confidence;
  bool needs_long = false;  // a passing burden of the machine looks the same
  std::string what;         // "computes"
  const char* action;
};

Blame CauseOf(const Job& job, const SlowWindow& window) {
  const double excess = window.slow_own_ns - window.others_own_ns;
  if (window.data_excess_ns >= kExplained * excess) {
    return {"data_worker_slow", 0.9, false, "waits longer for its data",
            "Look at the data workers of this rank and the storage they read; more workers or "
            "prefetching hide short delays."};
  }
  if (window.compute_excess_ns < kExplained * excess) {
    return {"cause_not_found", 0.5, true, "spends longer between collectives",
            "Compare the phases of this rank with the others in the report."};
  }
  const double cpu_excess = window.slow_cpu_ns - window.others_cpu_ns;
  const bool cpu_agrees = cpu_excess >= kCpuExplained * window.compute_excess_ns &&
                          cpu_excess >= kMinCpuExcess * window.others_cpu_ns;
  if (!window.cpu_tells || cpu_agrees) {
    return {
        "compute_slow", cpu_agrees ? 0.9 : 0.7, false, "computes longer",
        "Compare clock, temperature and other load of its node and device with the others', and "
        "whether it has more work to do (longer samples, more experts); move the rank if the "
        "hardware is slow."};
  }
  const ProcessState& process = job.ranks.at(window.slow).state.process;
  if (process.run_state == 'D') {
    return {"file_system_slow", 0.7, true, "is held up by the file system",
            "Look at the file system that this rank reads or writes in each step."};
  }
  if (process.run_state == 'R') {
    return {"cpu_contention", 0.7, true, "does not get the CPU",
            "Look for other processes on its cores (pinning, containers, daemons)."};
  }
  return {"cause_not_found", 0.5, true, "takes longer, without using the CPU more",
          "Look at what this rank waits for outside of collectives (storage, network, locks, "
          "sleep)."};
}

std::string PercentText(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", share * 100);
  return text;
}

Evidence Number(std::string text, const char* metric, double value, const char* unit,
                std::optional<double> expected) {
  return {std::move(text), metric, value, unit, expected};
}

void AddEvidence(const Job& job, const SlowWindow& window, Verdict* verdict) {
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
}

}  // namespace

std::vector<Verdict> DetectFailSlow(const Job& job, uint64_t now_unix_ns,
                                    const FailSlowSettings& settings) {
  if (job.ended) return {};
  const std::optional<SlowWindow> window = FindSlowWindow(job, now_unix_ns, settings);
  if (!window) return {};
  const Blame blame = CauseOf(job, *window);
  const uint64_t lasted =
      window->end_unix_ns - std::min(window->since_unix_ns, window->end_unix_ns);
  if (blame.needs_long && lasted < settings.unexplained_span_ns) return {};

  Verdict verdict = MakeVerdict("fail_slow", blame.cause);
  verdict.conclusive = window->false_alarm <= settings.strict_false_alarm;
  verdict.confidence = verdict.conclusive ? blame.confidence : blame.confidence * 0.7;
  verdict.since_unix_ns = window->since_unix_ns;
  const double wait_share = std::min(1.0, window->wait_ns / std::max(window->step_ns, 1.0));
  verdict.lost_share =
      wait_share * static_cast<double>(window->ranks - 1) / static_cast<double>(window->ranks);
  const double excess = window->slow_own_ns / std::max(window->others_own_ns, 1.0) - 1;
  verdict.summary = Capitalized(RankText(job, window->slow)) + " " + blame.what +
                    " than the others (" + PercentText(excess) + " more own time per step" +
                    (window->from_start ? ", in all steps seen"
                                        : ", since step " + std::to_string(window->onset.value)) +
                    "); it costs each of the others about " +
                    DurationText(static_cast<uint64_t>(window->wait_ns)) + " of each " +
                    DurationText(static_cast<uint64_t>(window->step_ns)) + " step.";
  verdict.action = blame.action;
  verdict.ranks = {window->slow};
  const std::string& node = job.ranks.at(window->slow).node;
  if (!node.empty()) verdict.nodes = {node};
  for (const auto& [rank, record] : job.ranks) {
    if (rank != window->slow) verdict.victims.push_back(rank);
  }
  AddEvidence(job, *window, &verdict);
  return {verdict};
}

}  // namespace flare::diag
