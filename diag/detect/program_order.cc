// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "diag/detect/causes.h"
#include "diag/detect/hang_parts.h"
#include "diag/detect/signatures.h"
#include "diag/detect/words.h"

// Ranks wait for each other in two communicators. Either they call them in opposite order, or one
// of them left a call out and went on. Each rank's last calls in all its communicators, put in
// order of launch, repeat step after step; the rank that leaves this pattern is the odd one. It
// skipped a call when its next calls come as late as they usually come after the skipped one, or
// belong to another phase of the step; calls that come in its stead are an exchange of order.
namespace flare::diag {
namespace {

constexpr size_t kContext = 3;
constexpr size_t kFarthest = 32;   // calls ahead in the pattern
constexpr double kClearRatio = 2;  // between the two pauses that the explanations predict
constexpr uint64_t kClearPauseNs = 5'000'000;

struct Launch {
  CommId comm;
  Signature call;
};

bool Same(const Launch& a, const Launch& b) { return a.comm == b.comm && Agree(a.call, b.call); }

// All known launches of a rank by time, from where every one of its full lists has begun.
std::vector<Launch> LaunchesOf(const RankRecord& record) {
  constexpr size_t kFullList = 32;  // lists may be cut at the front
  std::vector<Launch> launches;
  uint64_t known_from = 0;
  for (const CommunicatorState& comm : record.state.communicators) {
    if (comm.recent.size() >= kFullList) {
      known_from = std::max(known_from, comm.recent.front().launched_unix_ns);
    }
    for (const Signature& call : comm.recent) launches.push_back({comm.communicator, call});
  }
  std::erase_if(launches, [&](const Launch& l) { return l.call.launched_unix_ns < known_from; });
  std::stable_sort(launches.begin(), launches.end(), [](const Launch& a, const Launch& b) {
    return a.call.launched_unix_ns < b.call.launched_unix_ns;
  });
  return launches;
}

// Index of the call after the latest place, before `limit`, where the last `kContext` calls before
// `end` came in the same row.
std::optional<size_t> PatternAfter(const std::vector<Launch>& launches, size_t end, size_t limit) {
  if (end < 2 * kContext) return std::nullopt;
  for (size_t next = limit - 1; next >= kContext; --next) {
    bool same = true;
    for (size_t i = 1; i <= kContext && same; ++i) {
      same = Same(launches[next - i], launches[end - i]);
    }
    if (same) return next;
  }
  return std::nullopt;
}

// First launch that another member of the cycle has not come to.
size_t TailOf(const JobView& view, const std::vector<Launch>& launches, Rank rank,
              const std::vector<Rank>& cycle) {
  for (size_t i = 0; i < launches.size(); ++i) {
    const Group* group = view.FindGroup(launches[i].comm);
    if (group == nullptr) continue;
    for (const auto& [position, member] : group->members) {
      const bool in_cycle = std::find(cycle.begin(), cycle.end(), member.first) != cycle.end();
      if (in_cycle && member.first != rank &&
          member.second->launched <= launches[i].call.sequence) {
        return i;
      }
    }
  }
  return launches.size();
}

bool InBackward(const RankView& rank) {
  const auto& calls = rank.record->state.open_calls;
  return std::any_of(calls.begin(), calls.end(), [](const OpenCall& call) {
    return call.main_thread && call.kind == EventKind::kBackward;
  });
}

struct Deviation {
  Rank rank;
  Launch expected;
  Launch made;
  bool skipped = false;
  double pause_ms = 0;        // before the call it made
  double pause_skip_ms = -1;  // as it would be after the skipped call, negative unknown
  double pause_order_ms = 0;  // as it would be in the skipped call's stead
};

double PauseMs(const Launch& from, const Launch& to) {
  const uint64_t a = from.call.launched_unix_ns, b = to.call.launched_unix_ns;
  return b > a ? static_cast<double>(b - a) * 1e-6 : 0;
}

// The pauses that the two explanations predict, told from every earlier step: the shortest that ever
// came after the skipped call, the longest that came before it. One step alone may have been hit by
// a busy machine.
void PredictPauses(const std::vector<Launch>& launches, size_t tail, size_t latest,
                   Deviation* deviation) {
  for (std::optional<size_t> next = latest; next; next = PatternAfter(launches, tail, *next)) {
    if (!Same(launches[*next], deviation->expected)) continue;
    for (size_t ahead = *next + 1; ahead < std::min(tail, *next + kFarthest); ++ahead) {
      if (!Same(launches[ahead], launches[tail])) continue;
      const double after_skip = PauseMs(launches[*next - 1], launches[ahead]);
      if (deviation->pause_skip_ms < 0 || after_skip < deviation->pause_skip_ms) {
        deviation->pause_skip_ms = after_skip;
      }
      deviation->pause_order_ms =
          std::max(deviation->pause_order_ms, PauseMs(launches[*next - 1], launches[*next]));
      break;
    }
    if (*next <= kContext) break;
  }
}

// How a rank leaves its own pattern; nothing when it does not, or has none.
std::optional<Deviation> DeviationOf(const JobView& view, Rank rank, const std::vector<Rank>& cycle,
                                     bool* has_pattern) {
  const std::vector<Launch> launches = LaunchesOf(*view.Find(rank)->record);
  const size_t tail = TailOf(view, launches, rank, cycle);
  *has_pattern = false;
  if (tail == launches.size()) return std::nullopt;
  const std::optional<size_t> next = PatternAfter(launches, tail, tail);
  if (!next) return std::nullopt;
  *has_pattern = true;
  if (Same(launches[*next], launches[tail])) return std::nullopt;
  Deviation deviation{rank, launches[*next], launches[tail]};
  deviation.pause_ms = PauseMs(launches[tail - 1], launches[tail]);
  PredictPauses(launches, tail, *next, &deviation);
  const bool clear = deviation.pause_skip_ms > kClearRatio * deviation.pause_order_ms &&
                     deviation.pause_skip_ms > deviation.pause_order_ms + kClearPauseNs * 1e-6;
  // Nearer, by ratio, to the pause of a skip than to that of an exchange.
  deviation.skipped = clear && deviation.pause_ms * deviation.pause_ms >
                                   deviation.pause_skip_ms * deviation.pause_order_ms;
  return deviation;
}

}  // namespace

std::vector<Verdict> ExplainCycleBySkip(const JobView& view, const WaitGraph& graph,
                                        const std::vector<Rank>& cycle) {
  std::vector<Deviation> odd;
  std::vector<Rank> usual;
  for (Rank rank : cycle) {
    bool has_pattern = false;
    std::optional<Deviation> deviation = DeviationOf(view, rank, cycle, &has_pattern);
    if (deviation) {
      odd.push_back(*deviation);
    } else if (has_pattern) {
      usual.push_back(rank);
    }
  }
  if (odd.empty() || usual.empty() || odd.size() > usual.size()) return {};
  const bool usual_in_backward = std::any_of(
      usual.begin(), usual.end(), [&](Rank rank) { return InBackward(*view.Find(rank)); });
  for (Deviation& deviation : odd) {
    const bool other_phase = InBackward(*view.Find(deviation.rank)) && !usual_in_backward;
    if (!deviation.skipped && !other_phase) return {};
  }

  const Deviation& first = odd.front();
  const Group* group = view.FindGroup(first.expected.comm);
  const Group* went_on_in = view.FindGroup(first.made.comm);
  std::vector<Rank> culprits;
  for (const Deviation& deviation : odd) culprits.push_back(deviation.rank);
  std::vector<Rank> victims = graph.WaitersFor(culprits);
  Verdict verdict = MakeVerdict("hang", "collective_skipped");
  verdict.conclusive = true;
  verdict.confidence = first.skipped ? 0.95 : 0.9;
  verdict.since_unix_ns = WaitBegin(view, victims, view.now());
  const bool one = culprits.size() == 1;
  const Signature& call = first.expected.call;
  const CommunicatorState* own = nullptr;
  for (const CommunicatorState& state : view.Find(first.rank)->record->state.communicators) {
    if (state.communicator == first.expected.comm) own = &state;
  }
  const uint64_t sequence = own == nullptr ? call.sequence : own->launched;
  verdict.summary =
      Capitalized(one ? RankText(view.job(), first.rank) : RanksText(culprits)) + " skipped " +
      CollectiveText(call.operation, call.data_type, call.bytes, sequence) + " of group " +
      (group == nullptr ? "?" : group->name) + " and went on to " +
      OperationText(first.made.call.operation) + " #" + std::to_string(first.made.call.sequence) +
      " of group " + (went_on_in == nullptr ? "?" : went_on_in->name) +
      WaitersText(view, victims, one) + ".";
  verdict.action =
      "Look in the program for a condition around this call that differs between ranks (rank "
      "checks, skipped batches, NaN handling).";
  Evidence evidence;
  evidence.text = "Pause of " + RankText(view.job(), first.rank) +
                  " before the call it made; expected: as usual after the skipped call "
                  "(launch times kept in its segment)";
  evidence.metric = "launch_pause";
  evidence.value = first.pause_ms;
  evidence.unit = "ms";
  evidence.expected = first.pause_skip_ms;
  verdict.evidence.push_back(std::move(evidence));
  AddWaitEvidence(view, victims, &verdict);
  SetRanks(view, culprits, victims, &verdict);
  return {verdict};
}

}  // namespace flare::diag
