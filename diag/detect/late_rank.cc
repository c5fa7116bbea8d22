// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/late_rank.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "diag/detect/causes.h"
#include "diag/detect/fail_slow.h"
#include "diag/detect/words.h"
#include "diag/metrics/late_arrivals.h"
#include "diag/metrics/statistics.h"

namespace flare::diag {
namespace {

constexpr size_t kShownRanks = 4;
// A launch that reaches a waiting device takes some 10 us; queues that are full, milliseconds.
constexpr double kPromptNs = 100'000;

// What one recording says, in nanoseconds.
struct Look {
  Rank rank;
  LateRank late;
  double span = 0, own = 0, idle = 0, compute = 0, data_load = 0;
  double kernels = 0;  // compute kernels
  double latency = 0;  // median from launch to start of kernels; 0 not known
};

double LatencyOf(const DeviceStep& device) {
  QuantileSketch all = device.compute_issue_latency;
  all.Merge(device.communication_issue_latency);
  return all.Quantile(0.5);
}

Look LookAt(const RankRecord& record) {
  const DeviceStep& device = *record.recording;
  Look look;
  look.rank = record.rank;
  look.span = static_cast<double>(device.span_ns);
  look.own = static_cast<double>(device.span_ns) - static_cast<double>(device.communication_ns);
  look.idle = static_cast<double>(device.span_ns) - static_cast<double>(device.busy_ns);
  look.compute = static_cast<double>(device.compute_ns);
  look.kernels = device.kernels - device.communication_kernels;
  look.latency = LatencyOf(device);
  for (const RankStep& step : record.steps) {
    for (const PhaseTime& phase : step.phases) {
      if (phase.kind == EventKind::kDataLoad) look.data_load += static_cast<double>(phase.total_ns);
    }
  }
  return look;
}

// The ranks that are not late, by their medians.
Look Usual(const std::vector<Look>& looks) {
  const auto median = [&](auto value) {
    std::vector<double> values;
    for (const Look& look : looks) {
      if (!look.late.is_late) values.push_back(look.*value);
    }
    return Median(std::move(values));
  };
  Look usual;
  usual.span = median(&Look::span);
  usual.own = median(&Look::own);
  usual.idle = median(&Look::idle);
  usual.compute = median(&Look::compute);
  usual.data_load = median(&Look::data_load);
  usual.kernels = median(&Look::kernels);
  usual.latency = median(&Look::latency);
  return usual;
}

struct Blame {
  const char* finding_class;
  const char* cause;
  double confidence;
  const char* why;
  const char* action;
};

Blame BlameOf(const Look& look, const Look& usual, const LateRankSettings& settings) {
  const double part = settings.explained * (look.own - usual.own);
  if (look.data_load - usual.data_load >= part) {
    return {"fail_slow", "data_worker_slow", 0.6, "it waits longer for its data",
            "Look at the data workers of this rank and the storage they read; more workers or "
            "prefetching hide short delays."};
  }
  if (look.compute - usual.compute >= part) {
    const double more = look.kernels / std::max(usual.kernels, 1.0) - 1;
    if (std::fabs(more) <= settings.same_kernels) {
      return {"fail_slow", "compute_slow", 0.6, "as many kernels take longer on its device",
              "Compare clock, temperature and memory errors of its device with the others'; if "
              "these are equal, whether its kernels get larger inputs."};
    }
    if (more > 0) {
      return {"regression", "load_imbalance", 0.6, "it has more kernels to run",
              "Compare what the ranks compute: layers of a pipeline stage, lengths of sequences, "
              "experts, embedding tables."};
    }
  }
  const bool prompt = look.latency > 0 && usual.latency > 0 &&
                      (look.latency <= 0.5 * usual.latency || look.latency <= kPromptNs);
  if (look.idle - usual.idle >= part && prompt) {
    return {"fail_slow", "cpu_contention", 0.5,
            "its device stands still because the host launches late, its kernels take no longer",
            "Look at what the host of this rank does between launches: other processes on its "
            "cores, pinning, clock of the processor, logging or bookkeeping that only this rank "
            "does (py-spy shows it). The device is not the reason."};
  }
  return {"fail_slow", "cause_not_found", 0.4, "its own part of the step is longer",
          "Compare the recordings of this rank and of one that waits for it."};
}

// Enough steps for the test that looks at steps rather than at single collectives.
bool EnoughForSteps(const Job& job) {
  const FailSlowSettings settings;
  for (const auto& [rank, record] : job.ranks) {
    if (record.steps.size() < settings.min_steps) return false;
    if (record.steps.back().step.value >= kFirstPseudoStep) return false;
    const RankStep &first = record.steps.front(), &last = record.steps.back();
    if (last.start_unix_ns + last.duration_ns < first.start_unix_ns + settings.min_span_ns) {
      return false;
    }
  }
  return true;
}

std::string Percent(double part, double whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * part / std::max(whole, 1.0));
  return text;
}

void AddEvidence(const Job& job, const Look& look, const Look& usual, Verdict* verdict) {
  const std::string who = Capitalized(RankText(job, look.rank));
  const auto add = [&](std::string text, const char* metric, double value, const char* unit,
                       std::optional<double> expected) {
    verdict->evidence.push_back({std::move(text), metric, value, unit, expected});
  };
  add(who + ": last to arrive, of " + std::to_string(look.late.collectives) +
          " collectives that made anybody wait; expected by chance, apart from ranks later still",
      "collectives_last", look.late.last, "collectives", look.late.expected_last);
  add("Probability of that by chance, for any rank", "false_alarm", look.late.false_alarm, "ratio",
      {});
  add(who + ": wait of each of the others for it in the recording, mean", "wait_caused",
      static_cast<double>(look.late.caused_ns) * 1e-6, "ms", {});
  add(who +
          ": share of the recording in which its device stands still; expected: median of the "
          "ranks that are not late",
      "device_idle", look.idle / std::max(look.span, 1.0), "ratio",
      usual.idle / std::max(usual.span, 1.0));
  add(who + ": time its device computes, by " +
          std::to_string(static_cast<uint64_t>(look.kernels)) + " kernels (the others by " +
          std::to_string(static_cast<uint64_t>(usual.kernels)) + ")",
      "device_compute", look.compute * 1e-6, "ms", usual.compute * 1e-6);
  if (look.latency <= 0 || usual.latency <= 0) return;
  add(who + ": issue latency of its kernels, median; small when the device waits for the host",
      "issue_latency", look.latency * 1e-3, "us", usual.latency * 1e-3);
}

Verdict ToVerdict(const Job& job, const Blame& blame, const std::vector<const Look*>& culprits,
                  const Look& usual) {
  Verdict verdict = MakeVerdict(blame.finding_class, blame.cause);
  verdict.confidence = blame.confidence;
  double waited = 0, idle = 0, span = 0, compute = 0;
  uint32_t last = 0, collectives = 0;
  for (const Look* look : culprits) {
    verdict.ranks.push_back(look->rank);
    const std::string& node = job.ranks.at(look->rank).node;
    auto& nodes = verdict.nodes;
    if (!node.empty() && std::find(nodes.begin(), nodes.end(), node) == nodes.end()) {
      nodes.push_back(node);
    }
    waited += static_cast<double>(look->late.caused_ns);
    idle += look->idle;
    span += look->span;
    compute += look->compute;
    last += look->late.last;
    collectives = std::max(collectives, look->late.collectives);
    if (verdict.ranks.size() <= kShownRanks) AddEvidence(job, *look, usual, &verdict);
  }
  for (const auto& [rank, record] : job.ranks) {
    if (std::find(verdict.ranks.begin(), verdict.ranks.end(), rank) == verdict.ranks.end()) {
      verdict.victims.push_back(rank);
    }
    if (record.steps.empty()) continue;
    const uint64_t begin = record.steps.front().start_unix_ns;
    if (verdict.since_unix_ns == 0 || begin < verdict.since_unix_ns) verdict.since_unix_ns = begin;
  }
  const auto ranks = static_cast<double>(job.ranks.size());
  const auto count = static_cast<double>(culprits.size());
  verdict.lost_share = std::min(1.0, waited / std::max(usual.span, 1.0)) * (ranks - count) / ranks;
  const bool one = culprits.size() == 1;
  verdict.summary = Capitalized(one ? RankText(job, verdict.ranks[0]) : RanksText(verdict.ranks)) +
                    (one ? " comes" : " come") + " last to " + std::to_string(last) + " of " +
                    std::to_string(collectives) + " collectives that made anybody wait and " +
                    (one ? "keeps" : "keep") + " each of the others waiting for " +
                    DurationText(static_cast<uint64_t>(waited)) + " of " +
                    DurationText(static_cast<uint64_t>(usual.span)) + ": " + blame.why +
                    " (device idle " + Percent(idle, span) + ", others " +
                    Percent(usual.idle, usual.span) + "; computing " +
                    DurationText(static_cast<uint64_t>(compute / count)) + ", others " +
                    DurationText(static_cast<uint64_t>(usual.compute)) + ").";
  verdict.action = blame.action;
  return verdict;
}

}  // namespace

std::vector<Verdict> DetectLateRank(const Job& job, uint64_t, const LateRankSettings& settings) {
  if (job.ranks.size() < 2) return {};
  for (const auto& [rank, record] : job.ranks) {
    if (!record.recording || record.recording->span_ns == 0) return {};
  }
  if (EnoughForSteps(job)) return {};
  const std::map<Rank, LateRank> late = LateArrivals(job, settings.false_alarm);
  if (late.size() < job.ranks.size()) return {};
  std::vector<Look> looks;
  size_t late_ranks = 0;
  for (const auto& [rank, record] : job.ranks) {
    Look look = LookAt(record);
    look.late = late.at(rank);
    late_ranks += look.late.is_late;
    looks.push_back(look);
  }
  if (late_ranks == 0 || 2 * late_ranks > looks.size()) return {};
  const Look usual = Usual(looks);
  std::vector<Blame> blames;
  std::vector<std::vector<const Look*>> culprits;
  for (const Look& look : looks) {
    if (!look.late.is_late) continue;
    if (static_cast<double>(look.late.caused_ns) < settings.min_wait_share * usual.span) continue;
    if (look.own < (1 + settings.min_own_excess) * usual.own) continue;
    const Blame blame = BlameOf(look, usual, settings);
    const auto same = std::find_if(blames.begin(), blames.end(), [&](const Blame& known) {
      return std::string_view(known.cause) == blame.cause;
    });
    if (same == blames.end()) {
      blames.push_back(blame);
      culprits.push_back({&look});
    } else {
      culprits[static_cast<size_t>(same - blames.begin())].push_back(&look);
    }
  }
  std::vector<Verdict> verdicts;
  for (size_t i = 0; i < blames.size(); ++i) {
    verdicts.push_back(ToVerdict(job, blames[i], culprits[i], usual));
  }
  return verdicts;
}

}  // namespace flare::diag
