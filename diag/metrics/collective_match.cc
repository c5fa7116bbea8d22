// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/collective_match.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace flare::diag {
namespace {

size_t ExpectedMembers(const Job& job, CommId comm, const std::map<CommId, std::set<Rank>>& users) {
  size_t expected = 0;
  for (const auto& [rank, record] : job.ranks) {
    for (const CommunicatorState& state : record.state.communicators) {
      if (state.communicator == comm) expected = std::max<size_t>(expected, state.group_size);
    }
  }
  return std::max(expected, users.at(comm).size());
}

}  // namespace

const Arrival& MatchedCollective::Last() const {
  return *std::min_element(
      arrivals.begin(), arrivals.end(),
      [](const Arrival& a, const Arrival& b) { return a.duration_us < b.duration_us; });
}

std::vector<MatchedCollective> MatchCollectives(const Job& job, StepId first, StepId last) {
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
  std::vector<MatchedCollective> matched;
  for (auto& [comm, sequences] : collectives) {
    const size_t expected = ExpectedMembers(job, comm, users);
    if (expected < 2) continue;
    for (auto& [sequence, arrivals] : sequences) {
      if (arrivals.size() == expected) matched.push_back({comm, sequence, std::move(arrivals)});
    }
  }
  return matched;
}

}  // namespace flare::diag
