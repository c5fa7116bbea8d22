// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/late_arrivals.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "diag/metrics/collective_match.h"
#include "diag/metrics/statistics.h"
#include "diag/metrics/wait_caused.h"

namespace flare::diag {
namespace {

constexpr StepId kFirst(0), kLast(std::numeric_limits<uint64_t>::max());

// Collectives in which somebody waited, as far as the test needs them.
struct Counted {
  std::vector<Rank> members;
  Rank last;
};

std::vector<Counted> Count(const Job& job, std::map<Rank, LateRank>* ranks) {
  std::vector<Counted> counted;
  for (const MatchedCollective& collective : MatchCollectives(job, kFirst, kLast)) {
    Counted entry;
    entry.last = collective.Last().rank;
    uint64_t longest_ns = 0, sum_ns = 0;
    for (const Arrival& arrival : collective.arrivals) {
      const uint64_t waited =
          uint64_t{1000} * (arrival.duration_us - collective.Last().duration_us);
      longest_ns = std::max(longest_ns, waited);
      sum_ns += waited;
      entry.members.push_back(arrival.rank);
    }
    if (longest_ns < kWorthCountingNs) continue;
    for (const Rank member : entry.members) ++(*ranks)[member].collectives;
    LateRank& late = (*ranks)[entry.last];
    ++late.last;
    late.caused_ns += sum_ns / (entry.members.size() - 1);
    counted.push_back(std::move(entry));
  }
  return counted;
}

// Tests the ranks that are not set aside yet. The one with the least false alarm.
Rank Test(const std::vector<Counted>& counted, std::map<Rank, LateRank>* ranks) {
  std::map<Rank, uint32_t> trials;
  for (auto& [rank, late] : *ranks) {
    if (!late.is_late) late.expected_last = 0;
  }
  for (const Counted& entry : counted) {
    if (ranks->at(entry.last).is_late) continue;
    const auto open =
        static_cast<double>(std::count_if(entry.members.begin(), entry.members.end(),
                                          [&](Rank member) { return !ranks->at(member).is_late; }));
    for (const Rank member : entry.members) {
      LateRank& late = ranks->at(member);
      if (late.is_late) continue;
      late.expected_last += 1 / open;
      ++trials[member];
    }
  }
  Rank least;
  double least_alarm = 2;
  for (auto& [rank, late] : *ranks) {
    if (late.is_late) continue;
    const uint32_t tries = trials[rank];
    const double tail = tries == 0 ? 1 : BinomialTail(tries, late.last, late.expected_last / tries);
    late.false_alarm = std::min(1.0, tail * static_cast<double>(ranks->size()));
    if (late.false_alarm >= least_alarm) continue;
    least_alarm = late.false_alarm;
    least = rank;
  }
  return least;
}

}  // namespace

std::map<Rank, LateRank> LateArrivals(const Job& job, double false_alarm) {
  std::map<Rank, LateRank> ranks;
  const std::vector<Counted> counted = Count(job, &ranks);
  for (size_t left = ranks.size(); left > 0; --left) {
    LateRank& late = ranks.at(Test(counted, &ranks));
    if (late.false_alarm > false_alarm) break;
    late.is_late = true;
  }
  for (const StepWait& step : WaitCaused(job, kFirst, kLast)) {
    for (const auto& [rank, ns] : step.caused) {
      const auto known = ranks.find(rank);
      if (known != ranks.end()) known->second.charged_ns += ns;
    }
  }
  return ranks;
}

}  // namespace flare::diag
