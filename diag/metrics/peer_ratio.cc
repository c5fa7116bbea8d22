// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/peer_ratio.h"

#include <algorithm>

namespace flare::diag {
namespace {

constexpr size_t kFewestPeers = 3;

struct Entry {
  uint32_t rank;  // place in PeerSteps::ranks
  double duration_ns;
};

bool Counts(const RankStep& step) {
  return step.duration_ns > 0 && step.step.value < kFirstPseudoStep;
}

// Median of sorted values without the one at `left_out`.
double MedianWithout(const std::vector<Entry>& sorted, size_t left_out) {
  const size_t count = sorted.size() - 1;
  const auto at = [&](size_t place) {
    return sorted[place < left_out ? place : place + 1].duration_ns;
  };
  return count % 2 == 1 ? at(count / 2) : (at(count / 2 - 1) + at(count / 2)) / 2;
}

// The numbers of all steps that count, but for the first and those too far back.
std::vector<StepId> StepsOf(const Job& job) {
  std::vector<StepId> steps;
  for (const auto& [rank, record] : job.ranks) {
    for (const RankStep& step : record.steps) {
      if (Counts(step)) steps.push_back(step.step);
    }
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  }
  const size_t most = kMostPeerValues / std::max<size_t>(job.ranks.size(), 1);
  const size_t drop = std::max<size_t>(1, steps.size() - std::min(steps.size(), most));
  steps.erase(steps.begin(), steps.begin() + static_cast<ptrdiff_t>(std::min(drop, steps.size())));
  return steps;
}

}  // namespace

PeerSteps ComparePeers(const Job& job) {
  PeerSteps peers;
  peers.steps = StepsOf(job);
  peers.start_unix_ns.assign(peers.steps.size(), 0);
  std::vector<std::vector<Entry>> rows(peers.steps.size());
  for (const auto& [rank, record] : job.ranks) {
    const auto index = static_cast<uint32_t>(peers.ranks.size());
    peers.ranks.push_back({rank, {}, {}, {}});
    for (const RankStep& step : record.steps) {
      if (!Counts(step)) continue;
      const auto found = std::lower_bound(peers.steps.begin(), peers.steps.end(), step.step);
      if (found == peers.steps.end() || *found != step.step) continue;
      const auto place = static_cast<size_t>(found - peers.steps.begin());
      rows[place].push_back({index, static_cast<double>(step.duration_ns)});
      if (peers.start_unix_ns[place] == 0) peers.start_unix_ns[place] = step.start_unix_ns;
    }
  }
  const size_t fewest = std::max(kFewestPeers + 1, (job.ranks.size() + 1) / 2);
  for (size_t place = 0; place < rows.size(); ++place) {
    std::vector<Entry>& row = rows[place];
    if (row.size() < fewest) continue;
    std::sort(row.begin(), row.end(),
              [](const Entry& a, const Entry& b) { return a.duration_ns < b.duration_ns; });
    for (size_t i = 0; i < row.size(); ++i) {
      PeerSeries& series = peers.ranks[row[i].rank];
      series.at.push_back(static_cast<uint32_t>(place));
      series.ratio.push_back(row[i].duration_ns / MedianWithout(row, i));
      series.duration_ns.push_back(row[i].duration_ns);
    }
    std::vector<Entry>().swap(row);
  }
  return peers;
}

}  // namespace flare::diag
