// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/slow_ranks.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "diag/detect/causes.h"
#include "diag/detect/words.h"
#include "diag/metrics/change_point.h"
#include "diag/metrics/peer_ratio.h"
#include "diag/metrics/statistics.h"

namespace flare::diag {
namespace {

constexpr double kOwnPart = 0.5;   // of the rise must show in the rank's own time
constexpr double kTogether = 0.5;  // of the shorter rise in common makes two of them one
constexpr size_t kQuarters = 4;
constexpr size_t kMostVerdicts = 8;
constexpr size_t kMostEvidence = 16;

struct RankRise {
  Rank rank;
  Rise rise;          // of its ratio; places in its own series
  size_t begin, end;  // places in PeerSteps::steps
  double before_ns, after_ns;
  bool lasting;
};

bool Communicates(const Job& job) {
  return std::any_of(job.ranks.begin(), job.ranks.end(), [](const auto& entry) {
    const auto& steps = entry.second.steps;
    return std::any_of(steps.begin(), steps.end(), [](const RankStep& step) {
      return step.communication_ns > 0 || !step.communicators.empty();
    });
  });
}

double MedianOf(const std::vector<double>& values, size_t begin, size_t end) {
  return Median({values.begin() + static_cast<ptrdiff_t>(begin),
                 values.begin() + static_cast<ptrdiff_t>(end)});
}

std::vector<RankRise> RisesOf(const PeerSeries& series, double worst, bool recorded,
                              const SlowRanksSettings& settings) {
  RiseSettings wanted;
  wanted.min_rise = settings.min_rise;
  std::vector<Rise> rises;
  if (recorded) {
    rises = FindRises(series.ratio, worst, wanted);
  } else if (const auto rise = FindLastingRise(series.ratio, wanted);
             rise && rise->false_alarm <= worst) {
    rises.push_back(*rise);
  }
  std::vector<RankRise> kept;
  for (const Rise& rise : rises) {
    if (rise.size() < settings.min_over_wander * rise.wander) continue;
    const double before = MedianOf(series.duration_ns, rise.reference, rise.begin);
    const double after = MedianOf(series.duration_ns, rise.begin, rise.end);
    if (after < before * (1 + kOwnPart * rise.size())) continue;
    kept.push_back({series.rank, rise, series.at[rise.begin], size_t{series.at[rise.end - 1]} + 1,
                    before, after, rise.end == series.ratio.size()});
  }
  return kept;
}

bool Together(const RankRise& a, const RankRise& b) {
  const size_t begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
  if (begin >= end) return false;
  const size_t shorter = std::min(a.end - a.begin, b.end - b.begin);
  return static_cast<double>(end - begin) >= kTogether * static_cast<double>(shorter);
}

// Rises that share their time, the most certain group first.
std::vector<std::vector<RankRise>> Groups(std::vector<RankRise> rises) {
  std::sort(rises.begin(), rises.end(), [](const RankRise& a, const RankRise& b) {
    return a.rise.false_alarm < b.rise.false_alarm;
  });
  std::vector<std::vector<RankRise>> groups;
  for (const RankRise& rise : rises) {
    const auto home = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return std::any_of(group.begin(), group.end(),
                         [&](const RankRise& other) { return Together(rise, other); });
    });
    if (home == groups.end()) {
      groups.push_back({rise});
    } else if (std::none_of(home->begin(), home->end(),
                            [&](const RankRise& other) { return other.rank == rise.rank; })) {
      home->push_back(rise);
    }
  }
  return groups;
}

std::string PercentText(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", share * 100);
  return text;
}

std::string RangeText(double low, double high) {
  const std::string a = PercentText(low), b = PercentText(high);
  return a == b ? a : a.substr(0, a.size() - 2) + " to " + b;
}

void AddNodes(const Job& job, Verdict* verdict) {
  for (Rank rank : verdict->ranks) {
    const std::string& node = job.ranks.at(rank).node;
    const auto& nodes = verdict->nodes;
    if (node.empty() || std::find(nodes.begin(), nodes.end(), node) != nodes.end()) continue;
    verdict->nodes.push_back(node);
  }
}

Verdict VerdictOf(const Job& job, const PeerSteps& peers, std::vector<RankRise> group,
                  double worst_chance, const SlowRanksSettings& settings) {
  std::sort(group.begin(), group.end(),
            [](const RankRise& a, const RankRise& b) { return a.rank < b.rank; });
  Verdict verdict = MakeVerdict("fail_slow", "cause_not_found");
  size_t begin = peers.steps.size(), end = 0;
  double least = group[0].rise.size(), most = least, lost = 0;
  bool lasting = false;
  for (const RankRise& rise : group) {
    verdict.ranks.push_back(rise.rank);
    begin = std::min(begin, rise.begin);
    end = std::max(end, rise.end);
    least = std::min(least, rise.rise.size());
    most = std::max(most, rise.rise.size());
    lost += 1 - rise.before_ns / rise.after_ns;
    lasting = lasting || rise.lasting;
  }
  AddNodes(job, &verdict);
  verdict.conclusive = worst_chance <= settings.strict_false_alarm;
  verdict.confidence = verdict.conclusive ? 0.7 : 0.5;
  verdict.since_unix_ns = peers.start_unix_ns[begin];
  verdict.lost_share = lost / static_cast<double>(job.ranks.size());
  const bool one = group.size() == 1;
  const std::string first = std::to_string(peers.steps[begin].value);
  verdict.summary =
      Capitalized(one ? RankText(job, group[0].rank) : RanksText(verdict.ranks)) +
      (lasting ? (one ? " takes" : " take") : " took") + " longer for each step than the others " +
      (lasting ? "since step " + first
               : "from step " + first + " to " + std::to_string(peers.steps[end - 1].value)) +
      " (" + RangeText(least, most) + " more than before, beside the median of the others)" +
      (lasting ? "" : "; that is over") + "; step times alone do not tell why.";
  verdict.action = std::string("Compare clock, temperature, other load and data of ") +
                   (one ? "this rank" : "these ranks") +
                   " with the others', and what else runs on the same node or device.";
  auto& evidence = verdict.evidence;
  for (const RankRise& rise : group) {
    if (evidence.size() >= kMostEvidence) break;
    evidence.push_back({Capitalized(RankText(job, rise.rank)) + ": time of a step, median over " +
                            CountText(rise.rise.end - rise.rise.begin, "step") + " from step " +
                            std::to_string(peers.steps[rise.begin].value) +
                            "; expected: median of those before",
                        "step_time", rise.after_ns * 1e-6, "ms", rise.before_ns * 1e-6});
  }
  evidence.push_back({"Probability of such a rise by chance, in any rank",
                      "false_alarm",
                      worst_chance,
                      "ratio",
                      {}});
  return verdict;
}

bool StillSteps(const PeerSteps& peers, uint64_t now, const SlowRanksSettings& settings) {
  uint64_t last = 0;
  for (const PeerSeries& series : peers.ranks) {
    if (!series.duration_ns.empty()) {
      last = std::max(last, static_cast<uint64_t>(series.duration_ns.back()));
    }
  }
  return now <= peers.start_unix_ns.back() + last + std::max(settings.newest_step_ns, 3 * last);
}

bool LongEnough(const PeerSteps& peers, const std::vector<RankRise>& group, bool recorded,
                const SlowRanksSettings& settings) {
  if (recorded) return true;
  size_t begin = peers.steps.size();
  for (const RankRise& rise : group) begin = std::min(begin, rise.begin);
  return peers.start_unix_ns.back() >= peers.start_unix_ns[begin] + settings.min_slow_ns;
}

// Each rank's median in each quarter of the steps.
using QuarterMedians = std::array<double, kQuarters>;

std::optional<Verdict> SteadyDifference(const Job& job, const PeerSteps& peers,
                                        const SlowRanksSettings& settings) {
  const size_t quarter = peers.steps.size() / kQuarters;
  if (quarter < RiseSettings().min_after) return std::nullopt;
  struct Level {
    Rank rank;
    double median;
    QuarterMedians quarters;
  };
  std::vector<Level> levels;
  for (const PeerSeries& series : peers.ranks) {
    Level level{series.rank, Median(series.duration_ns), {}};
    std::vector<double> parts[kQuarters];
    for (size_t i = 0; i < series.at.size(); ++i) {
      parts[std::min(kQuarters - 1, series.at[i] / quarter)].push_back(series.duration_ns[i]);
    }
    for (size_t q = 0; q < kQuarters; ++q) {
      if (parts[q].size() * 2 < quarter) return std::nullopt;  // seen too seldom to be compared
      level.quarters[q] = Median(std::move(parts[q]));
    }
    levels.push_back(level);
  }
  std::sort(levels.begin(), levels.end(),
            [](const Level& a, const Level& b) { return a.median < b.median; });
  size_t first = 0;  // of the slow ones
  double gap = 0;
  for (size_t i = (levels.size() + 1) / 2; i < levels.size(); ++i) {
    const double here = levels[i].median / levels[i - 1].median;
    if (here > gap) {
      gap = here;
      first = i;
    }
  }
  if (gap < settings.steady_ratio) return std::nullopt;
  for (size_t q = 0; q < kQuarters; ++q) {
    double fast = 0, slow = levels[first].quarters[q];
    for (size_t i = 0; i < levels.size(); ++i) {
      if (i < first) fast = std::max(fast, levels[i].quarters[q]);
      if (i >= first) slow = std::min(slow, levels[i].quarters[q]);
    }
    if (slow < fast * (1 + (settings.steady_ratio - 1) / 2)) return std::nullopt;
  }
  Verdict verdict = MakeVerdict("fail_slow", "cause_not_found");
  for (size_t i = first; i < levels.size(); ++i) verdict.ranks.push_back(levels[i].rank);
  std::sort(verdict.ranks.begin(), verdict.ranks.end());
  AddNodes(job, &verdict);
  verdict.confidence = 0.4;
  verdict.severity = "low";
  verdict.since_unix_ns = peers.start_unix_ns.front();
  verdict.lost_share = 0;  // nobody waits for them, as far as is known
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.1f", gap);
  verdict.summary = Capitalized(RanksText(verdict.ranks)) +
                    (verdict.ranks.size() == 1 ? " takes" : " take") + " at least " + ratio +
                    " times as long for each step as each of the others, in all steps seen.";
  verdict.action =
      "Compare how much work, which device and how much of it these ranks have; if all is equal, "
      "look at the node.";
  for (const Level& level : levels) {
    if (verdict.evidence.size() >= kMostEvidence) break;
    verdict.evidence.push_back({Capitalized(RankText(job, level.rank)) + ": time of a step, median",
                                "step_time", level.median * 1e-6, "ms", levels[0].median * 1e-6});
  }
  return verdict;
}

}  // namespace

std::vector<Verdict> DetectSlowRanks(const Job& job, uint64_t now_unix_ns,
                                     const SlowRanksSettings& settings) {
  if (job.ended || job.ranks.size() < settings.min_ranks || Communicates(job)) return {};
  const PeerSteps peers = ComparePeers(job);
  if (peers.steps.empty()) return {};
  if (!job.recorded && !StillSteps(peers, now_unix_ns, settings)) return {};
  const auto ranks = static_cast<double>(peers.ranks.size());
  std::vector<RankRise> rises;
  for (const PeerSeries& series : peers.ranks) {
    for (RankRise& rise :
         RisesOf(series, settings.weak_false_alarm / ranks, job.recorded, settings)) {
      rises.push_back(std::move(rise));
    }
  }
  std::vector<Verdict> verdicts;
  for (const std::vector<RankRise>& group : Groups(std::move(rises))) {
    if (verdicts.size() >= kMostVerdicts) break;
    if (group.size() * 2 > peers.ranks.size()) continue;
    if (!LongEnough(peers, group, job.recorded, settings)) continue;
    double chance = 0;
    for (const RankRise& rise : group) chance = std::max(chance, rise.rise.false_alarm * ranks);
    verdicts.push_back(VerdictOf(job, peers, group, chance, settings));
  }
  if (job.recorded) {
    if (auto steady = SteadyDifference(job, peers, settings)) {
      verdicts.push_back(std::move(*steady));
    }
  }
  return verdicts;
}

}  // namespace flare::diag
