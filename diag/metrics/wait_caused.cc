// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/wait_caused.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

namespace flare::diag {
namespace {

struct Arrival {
  Rank rank;
  StepId step;
  uint32_t duration_us;
};

// What a rank is charged on one communicator in one step, and by whom it is itself delayed there.
struct Charge {
  double caused_ns = 0;              // over all waiters
  double longest_ns = 0;             // longest single wait of each collective, summed
  std::map<Rank, double> waited_ns;  // own wait, by the rank that was waited for
};

using CommCharges = std::map<CommId, std::map<Rank, Charge>>;

constexpr int kLongestChain = 8;

// Members that must be seen for a collective to count: the group size where a rank told it, else
// everybody who ever used the communicator.
size_t ExpectedMembers(const Job& job, CommId comm, const std::map<CommId, std::set<Rank>>& users) {
  size_t expected = 0;
  for (const auto& [rank, record] : job.ranks) {
    for (const CommunicatorState& state : record.state.communicators) {
      if (state.communicator == comm) expected = std::max<size_t>(expected, state.group_size);
    }
  }
  return std::max(expected, users.at(comm).size());
}

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
  std::map<CommId, std::unordered_map<uint64_t, std::vector<Arrival>>> collectives;
  std::map<CommId, std::set<Rank>> users;
  for (const auto& [rank, record] : job.ranks) {
    for (const RankStep& step : record.steps) {
      for (const CommunicatorStep& comm : step.communicators) {
        users[comm.communicator].insert(rank);
        if (step.step < first || step.step > last) continue;
        for (size_t i = 0; i < comm.duration_us.size(); ++i) {
          if (comm.duration_us[i] == 0) continue;
          collectives[comm.communicator][comm.first_sequence + i].push_back(
              {rank, step.step, comm.duration_us[i]});
        }
      }
    }
  }
  std::map<StepId, CommCharges> by_step;
  std::map<StepId, std::map<Rank, uint64_t>> longest_by_step;
  for (const auto& [comm, sequences] : collectives) {
    const size_t expected = ExpectedMembers(job, comm, users);
    if (expected < 2) continue;
    for (const auto& [sequence, arrivals] : sequences) {
      if (arrivals.size() != expected) continue;
      const Arrival& late = *std::min_element(
          arrivals.begin(), arrivals.end(),
          [](const Arrival& a, const Arrival& b) { return a.duration_us < b.duration_us; });
      auto& ranks = by_step[late.step][comm];
      double longest = 0, sum = 0;
      for (const Arrival& arrival : arrivals) {
        const double waited = 1e3 * (arrival.duration_us - late.duration_us);
        if (waited <= 0) continue;
        ranks[arrival.rank].waited_ns[late.rank] += waited;
        ranks[late.rank].caused_ns += waited;
        longest = std::max(longest, waited);
        sum += waited;
      }
      ranks[late.rank].longest_ns += longest;
      uint64_t& largest_mean = longest_by_step[late.step][late.rank];
      largest_mean =
          std::max(largest_mean, static_cast<uint64_t>(sum / static_cast<double>(expected - 1)));
    }
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
