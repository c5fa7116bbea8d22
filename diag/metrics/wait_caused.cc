// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/wait_caused.h"

#include <algorithm>
#include <utility>

#include "diag/metrics/collective_match.h"

namespace flare::diag {
namespace {

// What a rank is charged on one communicator in one step, and by whom it is itself delayed there.
struct Charge {
  double caused_ns = 0;              // over all waiters
  double longest_ns = 0;             // longest single wait of each collective, summed
  std::map<Rank, double> waited_ns;  // own wait, by the rank that was waited for
};

using CommCharges = std::map<CommId, std::map<Rank, Charge>>;

constexpr int kLongestChain = 8;

// Moves charges along chains of communicators until they rest with a rank that was not delayed.
std::map<Rank, double> Settle(const CommCharges& charges) {
  std::map<Rank, double> settled;
  struct Parcel {
    CommId comm;
    Rank rank;
    double amount;
  };
  std::vector<Parcel> parcels;
  for (const auto& [comm, ranks] : charges) {
    for (const auto& [rank, charge] : ranks) {
      if (charge.caused_ns > 0) parcels.push_back({comm, rank, charge.caused_ns});
    }
  }
  for (int hop = 0; hop < kLongestChain && !parcels.empty(); ++hop) {
    std::map<std::pair<CommId, Rank>, double> next;
    for (const Parcel& parcel : parcels) {
      double waited = 0;
      for (const auto& [comm, ranks] : charges) {
        if (comm == parcel.comm || !ranks.contains(parcel.rank)) continue;
        for (const auto& [who, ns] : ranks.at(parcel.rank).waited_ns) waited += ns;
      }
      const Charge& own = charges.at(parcel.comm).at(parcel.rank);
      const bool last_hop = hop + 1 == kLongestChain;
      const double fraction =
          last_hop || own.longest_ns <= 0 ? 0 : std::min(1.0, waited / own.longest_ns);
      settled[parcel.rank] += parcel.amount * (1 - fraction);
      if (fraction <= 0) continue;
      for (const auto& [comm, ranks] : charges) {
        if (comm == parcel.comm || !ranks.contains(parcel.rank)) continue;
        for (const auto& [who, ns] : ranks.at(parcel.rank).waited_ns) {
          next[{comm, who}] += parcel.amount * fraction * ns / waited;
        }
      }
    }
    parcels.clear();
    for (const auto& [key, amount] : next) parcels.push_back({key.first, key.second, amount});
  }
  return settled;
}

}  // namespace

std::vector<StepWait> WaitCaused(const Job& job, StepId first, StepId last) {
  std::map<StepId, CommCharges> by_step;
  std::map<StepId, std::map<Rank, uint64_t>> longest_by_step;
  for (const MatchedCollective& collective : MatchCollectives(job, first, last)) {
    const Arrival& late = collective.Last();
    auto& ranks = by_step[late.step][collective.communicator];
    double longest = 0, sum = 0;
    for (const Arrival& arrival : collective.arrivals) {
      const double waited = 1e3 * (arrival.duration_us - late.duration_us);
      if (waited <= 0) continue;
      ranks[arrival.rank].waited_ns[late.rank] += waited;
      ranks[late.rank].caused_ns += waited;
      longest = std::max(longest, waited);
      sum += waited;
    }
    ranks[late.rank].longest_ns += longest;
    uint64_t& largest_mean = longest_by_step[late.step][late.rank];
    const auto others = static_cast<double>(collective.arrivals.size() - 1);
    largest_mean = std::max(largest_mean, static_cast<uint64_t>(sum / others));
  }
  std::vector<StepWait> result;
  for (const auto& [step, charges] : by_step) {
    StepWait wait;
    wait.step = step;
    for (const auto& [rank, ns] : Settle(charges)) {
      const auto whole = static_cast<uint64_t>(ns);
      if (whole == 0) continue;
      wait.caused[rank] = whole;
      wait.total_ns += whole;
    }
    wait.longest = std::move(longest_by_step[step]);
    result.push_back(std::move(wait));
  }
  return result;
}

}  // namespace flare::diag
