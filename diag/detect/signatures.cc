// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/signatures.h"

#include <algorithm>

namespace flare::diag {
namespace {

constexpr size_t kContext = 3;  // calls that must repeat for a pattern
constexpr uint32_t kLongestShift = 16;

using Cluster = std::vector<const MemberCalls*>;

// Members that know the call at `sequence`, grouped by what they called; largest group first.
std::vector<Cluster> ClustersAt(const std::vector<MemberCalls>& members, uint64_t sequence) {
  std::vector<Cluster> clusters;
  for (const MemberCalls& member : members) {
    const auto call = member.calls.find(sequence);
    if (call == member.calls.end()) continue;
    auto home = std::find_if(clusters.begin(), clusters.end(), [&](const Cluster& cluster) {
      return Agree(cluster.front()->calls.at(sequence), call->second);
    });
    if (home == clusters.end()) home = clusters.insert(clusters.end(), Cluster{});
    home->push_back(&member);
  }
  std::stable_sort(clusters.begin(), clusters.end(),
                   [](const Cluster& a, const Cluster& b) { return a.size() > b.size(); });
  return clusters;
}

// The unbroken run of calls of a member that ends just before `sequence`.
std::vector<Signature> HistoryBefore(const MemberCalls& member, uint64_t sequence) {
  std::vector<Signature> history;
  while (sequence > 0) {
    const auto call = member.calls.find(--sequence);
    if (call == member.calls.end()) break;
    history.push_back(call->second);
  }
  std::reverse(history.begin(), history.end());
  return history;
}

// Calls of a member from `sequence` on, continued by pattern to at least `length` where possible.
std::vector<Signature> CallsFrom(const MemberCalls& member, uint64_t sequence, size_t length) {
  std::vector<Signature> all = HistoryBefore(member, sequence);
  const size_t start = all.size();
  for (auto call = member.calls.find(sequence);
       call != member.calls.end() && call->first == sequence + (all.size() - start); ++call) {
    all.push_back(call->second);
  }
  while (all.size() - start < length) {
    const std::optional<Signature> next = ExpectedNext(all);
    if (!next) break;
    all.push_back(*next);
  }
  return {all.begin() + static_cast<ptrdiff_t>(start), all.end()};
}

std::vector<Signature> KnownCallsFrom(const MemberCalls& member, uint64_t sequence) {
  return CallsFrom(member, sequence, 0);
}

// True when every call of `calls` that has a partner in `usual`, `ahead` places on, agrees with it.
bool FitsAhead(const std::vector<Signature>& calls, const std::vector<Signature>& usual,
               size_t ahead) {
  if (usual.size() <= ahead || calls.empty()) return false;
  for (size_t i = 0; i < calls.size() && i + ahead < usual.size(); ++i) {
    if (!Agree(calls[i], usual[i + ahead])) return false;
  }
  return true;
}

void Classify(const MemberCalls& odd, const MemberCalls& usual, Disagreement* result) {
  const std::vector<Signature> odd_known = KnownCallsFrom(odd, result->sequence);
  const std::vector<Signature> usual_known = KnownCallsFrom(usual, result->sequence);
  const std::vector<Signature> usual_more =
      CallsFrom(usual, result->sequence, odd_known.size() + kLongestShift);
  for (uint32_t shift = 1; shift <= kLongestShift; ++shift) {
    if (FitsAhead(odd_known, usual_more, shift)) {
      result->divergence = Divergence::kSkipped;
      result->shift = shift;
      return;
    }
    if (FitsAhead(usual_known, odd_known, shift)) {
      result->divergence = Divergence::kExtra;
      result->shift = shift;
      return;
    }
  }
}

void AddRanks(const Cluster& cluster, std::vector<Rank>* ranks) {
  for (const MemberCalls* member : cluster) ranks->push_back(member->rank);
  std::sort(ranks->begin(), ranks->end());
}

// The group of members whose call is the right one; the number of groups when that cannot be said.
size_t RightCluster(const std::vector<Cluster>& clusters, uint64_t sequence) {
  size_t others = 0;
  for (size_t i = 1; i < clusters.size(); ++i) others += clusters[i].size();
  if (clusters[0].size() > others) return 0;
  size_t right = clusters.size();
  for (size_t i = 0; i < clusters.size(); ++i) {
    const MemberCalls& member = *clusters[i].front();
    const std::optional<Signature> expected = ExpectedNext(HistoryBefore(member, sequence));
    if (!expected || !Agree(*expected, member.calls.at(sequence))) continue;
    if (right != clusters.size()) return clusters.size();
    right = i;
  }
  return right;
}

}  // namespace

bool Agree(const Signature& a, const Signature& b) {
  if (a.operation == Operation::kUnknown || b.operation == Operation::kUnknown) return true;
  if (a.operation != b.operation) return false;
  if (a.peer != b.peer) return false;
  if (a.data_type == DataType::kUnknown || b.data_type == DataType::kUnknown) return true;
  if (a.data_type != b.data_type) return false;
  if (a.operation == Operation::kScatter) return true;
  return a.unequal_bytes_allowed || b.unequal_bytes_allowed || a.bytes == b.bytes;
}

std::optional<Signature> ExpectedNext(const std::vector<Signature>& history) {
  for (size_t context = std::min(kContext, history.size()); context >= 1; --context) {
    if (history.size() <= context) continue;
    const size_t tail = history.size() - context;
    for (size_t start = tail; start-- > 0;) {
      bool same = true;
      for (size_t i = 0; i < context && same; ++i)
        same = Agree(history[start + i], history[tail + i]);
      if (same) return history[start + context];
    }
  }
  return std::nullopt;
}

std::optional<Disagreement> FindDisagreement(const std::vector<MemberCalls>& members) {
  std::vector<uint64_t> sequences;
  for (const MemberCalls& member : members) {
    for (const auto& [sequence, call] : member.calls) sequences.push_back(sequence);
  }
  std::sort(sequences.begin(), sequences.end());
  sequences.erase(std::unique(sequences.begin(), sequences.end()), sequences.end());
  for (uint64_t sequence : sequences) {
    const std::vector<Cluster> clusters = ClustersAt(members, sequence);
    if (clusters.size() < 2) continue;
    Disagreement result;
    result.sequence = sequence;
    const size_t right = RightCluster(clusters, sequence);
    result.told_apart = right < clusters.size();
    const size_t usual = result.told_apart ? right : 0;
    for (size_t i = 0; i < clusters.size(); ++i) {
      if (i != usual || !result.told_apart) AddRanks(clusters[i], &result.odd);
    }
    AddRanks(clusters[usual], &result.others);
    const MemberCalls& odd = *clusters[usual == 0 ? 1 : 0].front();
    result.odd_call = odd.calls.at(sequence);
    result.usual_call = clusters[usual].front()->calls.at(sequence);
    if (result.told_apart) Classify(odd, *clusters[usual].front(), &result);
    return result;
  }
  return std::nullopt;
}

}  // namespace flare::diag
