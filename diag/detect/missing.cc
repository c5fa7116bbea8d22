// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "diag/detect/causes.h"
#include "diag/detect/hang_parts.h"
#include "diag/detect/hold_up.h"
#include "diag/detect/words.h"

namespace flare::diag {
namespace {

// Point-to-point calls may have a partner that was posted earlier and is not waited for (isend): a
// large transfer looks like a cycle until it is done. Only time tells.
constexpr uint64_t kTransferNs = 8 * kSecondNs;

uint64_t LastProgress(const JobView& view, const std::vector<Rank>& a, const std::vector<Rank>& b) {
  uint64_t last = 0;
  for (const std::vector<Rank>* ranks : {&a, &b}) {
    for (Rank rank : *ranks) {
      const RankView* found = view.Find(rank);
      if (found == nullptr) continue;
      last = std::max(last, found->record->state.last_progress_unix_ns);
      // A dump may not tell when anything was finished; what waits has waited since then.
      if (found->stands_still() && found->longest_wait != nullptr)
        last = std::max(last, found->at_unix_ns() - found->wait_ns);
    }
  }
  return last;
}

void SetOpening(const JobView& view, uint64_t last_progress, Verdict* verdict) {
  const auto slow = static_cast<uint64_t>(view.settings().open_slow_steps *
                                          static_cast<double>(view.slow_step_ns()));
  verdict->open_after_unix_ns = last_progress + std::max(view.settings().open_ns, slow);
}

void AddActivityEvidence(const JobView& view, Rank rank, const Activity& activity,
                         Verdict* verdict) {
  const std::string who = Capitalized(RankText(view.job(), rank));
  if (!activity.place.empty()) {
    verdict->evidence.push_back(
        {who + " is in " + activity.place + " (Python stack of its main thread)", "", {}, "", {}});
  }
  if (!activity.detail.empty()) {
    verdict->evidence.push_back({who + ": " + activity.detail + " (/proc)", "", {}, "", {}});
  }
  if (activity.cpu_share >= 0) {
    verdict->evidence.push_back({who + ": CPU use of its main thread between two looks",
                                 "cpu_share",
                                 activity.cpu_share,
                                 "",
                                 {}});
  }
}

// The call in which somebody waits for one of `roots` itself, not at the far end of a chain: a
// collective if there is one, and of several the one that is open longest.
const OpenCall* DirectWait(const WaitGraph& graph, const std::vector<Rank>& roots) {
  const auto better = [](const OpenCall& a, const OpenCall& b) {
    const bool first = a.kind == EventKind::kCollective, second = b.kind == EventKind::kCollective;
    return first != second ? first : a.since_unix_ns < b.since_unix_ns;
  };
  const OpenCall* best = nullptr;
  for (const auto& [rank, node] : graph.nodes) {
    for (const WaitEdge& edge : node.edges) {
      if (std::find(roots.begin(), roots.end(), edge.to) == roots.end()) continue;
      if (best == nullptr || better(*edge.call, *best)) best = edge.call;
    }
  }
  return best;
}

// `victims` with those first that wait for one of `roots` in `call`.
std::vector<Rank> NearestFirst(const JobView& view, const std::vector<Rank>& victims,
                               const OpenCall* call) {
  std::vector<Rank> ordered = victims;
  if (call == nullptr) return ordered;
  std::stable_partition(ordered.begin(), ordered.end(), [&](Rank rank) {
    const RankView* waiter = view.Find(rank);
    return waiter->longest_wait != nullptr && waiter->longest_wait->kind == call->kind &&
           waiter->longest_wait->communicator == call->communicator;
  });
  return ordered;
}

// What a dump tells of the calls of a rank that others wait for.
void AddCallEvidence(const JobView& view, const WaitNode& root, Verdict* verdict) {
  const std::string who = Capitalized(RankText(view.job(), root.view->rank));
  const std::optional<OpenCall>& last = root.view->record->state.last_call;
  if (root.device_call != nullptr) {
    verdict->evidence.push_back({who + " has " + WaitText(view, *root.device_call) +
                                     " open in its dump" + PlaceText(*root.device_call),
                                 "",
                                 {},
                                 "",
                                 {}});
  } else if (last) {
    verdict->evidence.push_back({who + ": the last call in its dump is " + WaitText(view, *last) +
                                     ", finished" + PlaceText(*last),
                                 "",
                                 {},
                                 "",
                                 {}});
  }
}

// ---- Ranks that wait for each other.

bool MutualWaitIsCertain(const JobView& view, const WaitGraph& graph,
                         const std::vector<Rank>& cycle) {
  // All looks must fall into a time in which everybody waited.
  uint64_t last_begin = 0, first_look = ~uint64_t{0}, shortest = ~uint64_t{0};
  bool point_to_point = false, any_source = false, seen_waiting = true;
  for (Rank rank : cycle) {
    const WaitNode& node = graph.nodes.at(rank);
    last_begin = std::max(last_begin, node.view->at_unix_ns() - node.view->wait_ns);
    first_look = std::min(first_look, node.view->at_unix_ns());
    shortest = std::min(shortest, node.view->wait_ns);
    point_to_point = point_to_point || node.point_to_point;
    any_source = any_source || node.any_source;
    seen_waiting = seen_waiting && node.activity.doing == Doing::kWaitsForPeers;
  }
  if (first_look < last_begin + view.settings().conclusive_stall_ns || any_source) return false;
  if (point_to_point) return shortest >= std::max(kTransferNs, view.stall_ns());
  return seen_waiting || shortest >= view.stall_ns();
}

std::string CycleText(const WaitGraph& graph, const std::vector<Rank>& cycle, const JobView& view) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < cycle.size() && i < kShown; ++i) {
    const WaitEdge& edge = graph.nodes.at(cycle[i]).edges.front();
    text += (i == 0 ? "" : ", ") + RanksText({cycle[i]}) + " waits for rank " +
            std::to_string(edge.to.value) + " in " + WaitText(view, *edge.call);
  }
  return text + (cycle.size() > kShown ? ", ..." : "");
}

std::vector<Verdict> FromCycles(const JobView& view) {
  std::vector<Verdict> verdicts;
  const WaitGraph graph = BuildWaitGraph(view, view.settings().conclusive_stall_ns);
  for (const std::vector<Rank>& cycle : graph.cycles) {
    const bool certain = MutualWaitIsCertain(view, graph, cycle);
    const bool suspicious = std::all_of(cycle.begin(), cycle.end(), [&](Rank rank) {
      return view.Find(rank)->Waited(view.stall_ns());
    });
    if (!certain && !suspicious) continue;
    if (certain) {
      std::vector<Verdict> skips = ExplainCycleBySkip(view, graph, cycle);
      if (!skips.empty()) {
        verdicts.insert(verdicts.end(), skips.begin(), skips.end());
        continue;
      }
    }
    Verdict verdict = MakeVerdict("hang", "collective_order_cycle");
    verdict.conclusive = certain;
    verdict.confidence = certain ? 0.95 : 0.6;
    verdict.since_unix_ns = WaitBegin(view, cycle, view.now());
    const std::vector<Rank> victims = graph.WaitersFor(cycle);
    SetOpening(view, LastProgress(view, cycle, victims), &verdict);
    verdict.summary = Capitalized(RanksText(cycle)) +
                      " wait for each other, no single one is at "
                      "fault: " +
                      CycleText(graph, cycle, view) + ".";
    verdict.action =
        "Call these in the same order on every rank (for send and recv: let one side of each pair "
        "receive first, or use batch_isend_irecv).";
    AddWaitEvidence(view, cycle, &verdict);
    SetRanks(view, cycle, victims, &verdict);
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

// ---- Ranks that others wait for and that are busy elsewhere.

struct Reason {
  const char* cause;
  double confidence;
  std::string doing;
  const char* action;
};

constexpr HoldUp kNotSeen = {"cause_not_found", 0.4, "has not come to it, for a reason not seen",
                             "Dump the stack of this rank (py-spy dump --native)."};

Reason AsReason(const HoldUp& hold_up) {
  return {hold_up.cause, hold_up.confidence, hold_up.doing, hold_up.action};
}

Reason ReasonFor(const JobView& view, const WaitNode& root) {
  const Activity& activity = root.activity;
  if (root.device_call != nullptr) {
    const bool begun = root.view->IsLeftBehind(*root.device_call);
    return {
        "stuck_kernel", 0.6,
        std::string(begun ? "has not finished " : "has called, but its device has not begun, ") +
            WaitText(view, *root.device_call) +
            (begun ? ", which other members have finished" : ", in which other members are"),
        "Look at the device of this rank and its host: kernel log (Xid), nvidia-smi, dump of its "
        "native stack."};
  }
  const HoldUp* known = HoldUpBy(activity.doing);
  if (known == nullptr) return AsReason(kNotSeen);
  // A short collection is no reason.
  const bool short_gc =
      activity.doing == Doing::kGc &&
      root.view->at_unix_ns() < activity.since_unix_ns + view.settings().min_stall_ns;
  if (short_gc) return AsReason(kNotSeen);
  Reason reason = AsReason(*known);
  if (activity.doing == Doing::kLock && activity.place.empty()) reason.confidence = 0.5;
  return reason;
}

std::string ActivityText(const Activity& activity) {
  std::string text;
  if (!activity.place.empty()) text += " at " + activity.place;
  if (!activity.detail.empty()) text += " (" + activity.detail + ")";
  return text;
}

Verdict MissingVerdict(const JobView& view, const WaitGraph& graph, const std::vector<Rank>& roots,
                       const Reason& reason, bool slow_but_moving) {
  Verdict verdict = MakeVerdict("hang", reason.cause);
  const std::vector<Rank> victims = graph.WaitersFor(roots);
  const OpenCall* direct = DirectWait(graph, roots);
  verdict.confidence = slow_but_moving ? reason.confidence / 2 : reason.confidence;
  verdict.since_unix_ns = WaitBegin(view, victims, view.now());
  if (!slow_but_moving) SetOpening(view, LastProgress(view, roots, victims), &verdict);
  const bool one = roots.size() == 1;
  const WaitNode& root = graph.nodes.at(roots.front());
  std::string doing = reason.doing;
  if (!one && doing.starts_with("is ")) doing = "are " + doing.substr(3);
  if (!one && doing.starts_with("has ")) doing = "have " + doing.substr(4);
  verdict.summary = Capitalized(one ? RankText(view.job(), roots.front()) : RanksText(roots)) +
                    " " + doing + ActivityText(root.activity) +
                    (slow_but_moving ? ", slow but moving" : "") +
                    WaitersText(view, victims, one, direct) + ".";
  verdict.action = slow_but_moving
                       ? "It makes progress: wait, and raise the collective time-out if need be."
                       : reason.action;
  for (size_t i = 0; i < roots.size() && i < 4; ++i) {
    AddActivityEvidence(view, roots[i], graph.nodes.at(roots[i]).activity, &verdict);
    AddCallEvidence(view, graph.nodes.at(roots[i]), &verdict);
  }
  AddWaitEvidence(view, NearestFirst(view, victims, direct), &verdict);
  SetRanks(view, roots, victims, &verdict);
  return verdict;
}

std::vector<Verdict> FromRoots(const JobView& view, const WaitGraph& graph) {
  std::map<std::string, std::vector<Rank>> by_cause;
  std::map<std::string, Reason> reasons;
  bool unsettled = false;
  for (Rank rank : graph.roots) {
    const WaitNode& root = graph.nodes.at(rank);
    if (root.view->standing != Standing::kRunning) {
      // Ended and stopped ranks have their own questions, which may need more time; a silent one
      // may do anything.
      unsettled = true;
      continue;
    }
    if (!root.view->stands_still() && root.view->idle_ns < view.stall_ns()) {
      unsettled = true;
      const std::vector<Rank> victims = graph.WaitersFor({rank});
      const bool long_wait = std::any_of(victims.begin(), victims.end(), [&](Rank victim) {
        return view.Find(victim)->wait_ns >=
               std::max(view.settings().slow_but_moving_ns, view.stall_ns());
      });
      if (!long_wait) continue;
      return {MissingVerdict(view, graph, {rank}, ReasonFor(view, root), true)};
    }
    if (root.device_call == nullptr && root.activity.doing == Doing::kWaitsForPeers) {
      continue;  // for whom, we do not see
    }
    const Reason reason = ReasonFor(view, root);
    by_cause[reason.cause].push_back(rank);
    reasons.insert({reason.cause, reason});
  }
  if (by_cause.size() > 1) by_cause.erase("cause_not_found");
  if (unsettled) by_cause.erase("cause_not_found");
  std::vector<Verdict> verdicts;
  for (const auto& [cause, roots] : by_cause) {
    verdicts.push_back(MissingVerdict(view, graph, roots, reasons.at(cause), false));
  }
  return verdicts;
}

// ---- Nobody to blame.

Verdict NobodyVerdict(const JobView& view, const std::vector<Rank>& waiting, std::string what) {
  Verdict verdict = MakeVerdict("hang", "cause_not_found");
  verdict.confidence = 0.3;
  verdict.since_unix_ns = WaitBegin(view, waiting, view.now());
  SetOpening(view, LastProgress(view, waiting, {}), &verdict);
  verdict.summary = std::move(what);
  verdict.action =
      "Dump the stacks of all ranks (py-spy dump --native) and look at the network between them.";
  AddWaitEvidence(view, waiting, &verdict);
  SetRanks(view, {}, waiting, &verdict);
  return verdict;
}

std::vector<Verdict> WithoutCulprit(const JobView& view, const WaitGraph& graph,
                                    const std::vector<Rank>& waiting) {
  if (!graph.inside.empty()) {
    const WaitNode& node = graph.nodes.at(graph.inside.front());
    return {NobodyVerdict(view, waiting,
                          "All members have come to " + WaitText(view, *node.inside_call) +
                              " and it has not ended" + ForText(*node.view) +
                              "; no rank is at fault as far as can be seen.")};
  }
  const RankView& first = *view.Find(waiting.front());
  const size_t unseen =
      view.job().world_size > view.ranks().size() ? view.job().world_size - view.ranks().size() : 0;
  std::string why = "the ranks that have not come wait in torch.distributed for what is not traced";
  if (graph.roots.empty()) why = "it is not known who is missing";
  if (unseen > 0) why = CountText(unseen, "rank") + " of the job were never heard of";
  return {NobodyVerdict(
      view, waiting,
      Capitalized(RanksText(waiting)) + (waiting.size() == 1 ? " waits" : " wait") + " in " +
          WaitText(view, *first.longest_wait) + ForText(first) + "; " + why + ".")};
}

}  // namespace

std::vector<Verdict> DetectWaiting(const JobView& view) {
  if (view.job().ended) return {};
  std::vector<Verdict> cycles = FromCycles(view);
  if (!cycles.empty()) return cycles;
  std::vector<Rank> waiting;
  for (const RankView* rank : view.Waiting(view.stall_ns())) waiting.push_back(rank->rank);
  if (waiting.empty()) return {};
  const WaitGraph graph = BuildWaitGraph(view, view.settings().conclusive_stall_ns);
  const bool untraced = std::any_of(graph.roots.begin(), graph.roots.end(), [&](Rank rank) {
    const WaitNode& root = graph.nodes.at(rank);
    return root.view->standing == Standing::kRunning &&
           root.activity.doing == Doing::kWaitsForPeers && root.view->idle_ns >= view.stall_ns();
  });
  if (!graph.roots.empty()) {
    std::vector<Verdict> verdicts = FromRoots(view, graph);
    if (!verdicts.empty() || !untraced) return verdicts;
  }
  return WithoutCulprit(view, graph, waiting);
}

}  // namespace flare::diag
