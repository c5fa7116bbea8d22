// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/recording_hints.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>

#include "diag/detect/causes.h"
#include "diag/detect/words.h"
#include "diag/metrics/statistics.h"

namespace flare::diag {
namespace {

// What one step spent on the thing asked about.
struct Spent {
  double ns = 0;
  uint32_t calls = 0;
  std::string name;
};

using SpentIn = std::function<Spent(const RankStep&)>;

// One question, answered for all ranks together.
struct Answer {
  uint32_t ranks = 0, steps = 0, steps_with = 0;
  double share = 0;       // of the step time, median over the steps of all ranks
  double idle_share = 0;  // of the device, likewise
  double calls = 0;       // per step, median
  double step_ns = 0;
  std::string name;
  uint64_t since_unix_ns = 0;
};

double IdleShare(const RankStep& step) {
  const double busy = std::min<double>(static_cast<double>(step.device->busy_ns),
                                       static_cast<double>(step.duration_ns));
  return 1 - busy / static_cast<double>(step.duration_ns);
}

bool Marked(const RankStep& step) {
  return step.step.value < kFirstPseudoStep && step.duration_ns > 0 && step.device;
}

Spent SpentOn(const RankStep& step, EventKind kind) {
  Spent spent;
  for (const PhaseTime& phase : step.phases) {
    if (phase.kind != kind) continue;
    spent.ns += static_cast<double>(phase.total_ns);
    spent.calls += phase.count;
    spent.name = phase.name;
  }
  return spent;
}

Spent SpentOnMemory(const RankStep& step) {
  Spent spent;
  for (const PhaseTime& phase : step.phases) {
    if (phase.kind != EventKind::kUserCall) continue;
    for (const char* name : {"cudaMalloc", "cudaFree", "hipMalloc", "hipFree"}) {
      if (phase.name != name) continue;
      spent.ns += static_cast<double>(phase.total_ns);
      spent.calls += phase.count;
      spent.name = phase.name;
    }
  }
  return spent;
}

// Nothing when a rank was not recorded long enough, or when it does not show in most steps of each.
std::optional<Answer> Ask(const Job& job, const RecordingSettings& settings, double least_share,
                          const SpentIn& spent_in) {
  Answer answer;
  std::vector<double> shares, idle, calls, durations;
  for (const auto& [rank, record] : job.ranks) {
    uint32_t steps = 0, with = 0;
    for (const RankStep& step : record.steps) {
      if (!Marked(step)) continue;
      const Spent spent = spent_in(step);
      const auto duration = static_cast<double>(step.duration_ns);
      ++steps;
      // A device that works all the while loses nothing.
      if (spent.ns >= least_share * duration && IdleShare(step) >= settings.min_idle_share) ++with;
      shares.push_back(std::min(1.0, spent.ns / duration));
      idle.push_back(IdleShare(step));
      calls.push_back(spent.calls);
      durations.push_back(duration);
      if (!spent.name.empty()) answer.name = spent.name;
      if (answer.since_unix_ns == 0) answer.since_unix_ns = step.start_unix_ns;
    }
    if (steps < settings.min_steps || with < settings.most_steps * steps) return std::nullopt;
    ++answer.ranks;
    answer.steps += steps;
    answer.steps_with += with;
  }
  if (answer.ranks == 0) return std::nullopt;
  answer.share = Median(shares);
  answer.idle_share = Median(idle);
  answer.calls = Median(calls);
  answer.step_ns = Median(durations);
  if (answer.share < least_share) return std::nullopt;
  return answer;
}

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * share);
  return text;
}

Verdict ToVerdict(const Answer& answer, const char* cause, double confidence, std::string what,
                  const char* metric, const char* action) {
  Verdict verdict = MakeVerdict("regression", cause);
  verdict.confidence = confidence;
  verdict.since_unix_ns = answer.since_unix_ns;
  verdict.lost_share = std::min(answer.share, answer.idle_share);
  verdict.summary = std::move(what) + ", " + Percent(answer.share) + " of each " +
                    DurationText(static_cast<uint64_t>(answer.step_ns)) +
                    " step, while the device stands still for " + Percent(answer.idle_share) +
                    " of it (" + std::to_string(answer.steps_with) + " of " +
                    std::to_string(answer.steps) + " steps recorded).";
  verdict.action = action;
  verdict.evidence.push_back(
      {"Share of the step, median over the steps recorded", metric, answer.share, "ratio", {}});
  verdict.evidence.push_back({"Share of the step in which the device stands still, median",
                              "device_idle",
                              answer.idle_share,
                              "ratio",
                              {}});
  verdict.evidence.push_back({"Calls per step, median", "calls", answer.calls, "calls", {}});
  return verdict;
}

void AskDataLoader(const Job& job, const RecordingSettings& settings, std::vector<Verdict>* out) {
  const auto answer = Ask(job, settings, settings.data_load_share,
                          [](const RankStep& step) { return SpentOn(step, EventKind::kDataLoad); });
  if (!answer) return;
  const bool in_process = answer->name.find("SingleProcess") != std::string::npos;
  Verdict verdict = ToVerdict(
      *answer, "data_loader", in_process ? 0.95 : 0.9,
      in_process ? "The training process loads its data itself"
                 : "The training process waits for its data workers",
      "data_load",
      in_process ? "Load in worker processes (DataLoader(num_workers=4, persistent_workers=True)), "
                   "and pin memory, so that the next batch is ready when the step ends."
                 : "More workers or prefetching (num_workers, prefetch_factor), less work for each "
                   "sample, or faster storage.");
  // The wait is an interval by itself, and the device stands still at least as long beside it.
  verdict.conclusive = answer->idle_share >= answer->share / 2;
  out->push_back(std::move(verdict));
}

void AskCollector(const Job& job, const RecordingSettings& settings, std::vector<Verdict>* out) {
  const auto answer = Ask(job, settings, settings.gc_share,
                          [](const RankStep& step) { return SpentOn(step, EventKind::kGc); });
  if (!answer) return;
  out->push_back(ToVerdict(*answer, "python_gc", 0.7, "Python collects garbage during the steps",
                           "gc",
                           "gc.freeze() after set-up, or gc.disable() and one gc.collect() every "
                           "few hundred steps, on all ranks in the same step."));
}

void AskSynchronize(const Job& job, const RecordingSettings& settings, std::vector<Verdict>* out) {
  // What the device must lose by them, not how long the host waited: waiting for a busy device is
  // no loss.
  const auto answer = Ask(job, settings, settings.synchronize_share, [&](const RankStep& step) {
    Spent spent = SpentOn(step, EventKind::kSynchronize);
    spent.ns = spent.calls * settings.relaunch_ns;
    return spent;
  });
  if (!answer) return;
  char calls[32];
  std::snprintf(calls, sizeof calls, "%.0f", answer->calls);
  out->push_back(ToVerdict(
      *answer, "needless_synchronize", 0.6,
      std::string("The host waits for the device ") + calls +
          " times in a step; starting it again after each wait takes about " +
          DurationText(static_cast<uint64_t>(answer->calls * settings.relaunch_ns)),
      "synchronize",
      "Look for .item(), .cpu(), printing of tensors, nonzero and timers with synchronize in the "
      "loop; keep values on the device and read them every few hundred steps."));
}

void AskMemory(const Job& job, const RecordingSettings& settings, std::vector<Verdict>* out) {
  const auto answer = Ask(job, settings, settings.memory_share, SpentOnMemory);
  if (!answer) return;
  out->push_back(ToVerdict(
      *answer, "memory_management", 0.7, "Every step asks the driver for device memory or frees it",
      "memory_calls",
      "The caching allocator runs out and starts again: no empty_cache() in the loop, a smaller "
      "batch, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."));
}

}  // namespace

std::vector<Verdict> DetectInRecording(const Job& job, uint64_t,
                                       const RecordingSettings& settings) {
  for (const auto& [rank, record] : job.ranks) {
    if (!record.recording) return {};
  }
  std::vector<Verdict> verdicts;
  AskDataLoader(job, settings, &verdicts);
  AskCollector(job, settings, &verdicts);
  AskSynchronize(job, settings, &verdicts);
  AskMemory(job, settings, &verdicts);
  return verdicts;
}

}  // namespace flare::diag
