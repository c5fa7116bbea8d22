// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/late_arrivals.h"

#include <algorithm>
#include <limits>

#include "diag/metrics/collective_match.h"
#include "diag/metrics/statistics.h"
#include "diag/metrics/wait_caused.h"

namespace flare::diag {

std::map<Rank, LateRank> LateArrivals(const Job& job) {
  constexpr StepId kFirst(0), kLast(std::numeric_limits<uint64_t>::max());
  std::map<Rank, LateRank> ranks;
  for (const MatchedCollective& collective : MatchCollectives(job, kFirst, kLast)) {
    const Arrival& last = collective.Last();
    uint64_t longest_ns = 0, sum_ns = 0;
    for (const Arrival& arrival : collective.arrivals) {
      const uint64_t waited = uint64_t{1000} * (arrival.duration_us - last.duration_us);
      longest_ns = std::max(longest_ns, waited);
      sum_ns += waited;
    }
    if (longest_ns < kWorthCountingNs) continue;
    const auto members = static_cast<double>(collective.arrivals.size());
    for (const Arrival& arrival : collective.arrivals) {
      LateRank& rank = ranks[arrival.rank];
      ++rank.collectives;
      rank.expected_last += 1 / members;
    }
    ++ranks[last.rank].last;
    ranks[last.rank].caused_ns += sum_ns / (collective.arrivals.size() - 1);
  }
  for (auto& [rank, late] : ranks) {
    const double chance = late.expected_last / late.collectives;
    late.false_alarm = std::min(
        1.0, BinomialTail(late.collectives, late.last, chance) * static_cast<double>(ranks.size()));
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
