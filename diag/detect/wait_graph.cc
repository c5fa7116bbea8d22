// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/wait_graph.h"

#include <algorithm>
#include <functional>

namespace flare::diag {
namespace {

const CommunicatorState* StateIn(const RankView& rank, CommId comm) {
  for (const CommunicatorState& state : rank.record->state.communicators) {
    if (state.communicator == comm) return &state;
  }
  return nullptr;
}

bool HasOpen(const RankView& rank, EventKind kind, CommId comm, int32_t peer) {
  const auto& calls = rank.record->state.open_calls;
  return std::any_of(calls.begin(), calls.end(), [&](const OpenCall& call) {
    return call.kind == kind && call.communicator == comm && (call.peer == peer || call.peer < 0);
  });
}

void AddPointToPoint(const JobView& view, const OpenCall& call, WaitNode* node) {
  const Group* group = view.FindGroup(call.communicator);
  const CommunicatorState* own = StateIn(*node->view, call.communicator);
  if (group == nullptr || own == nullptr) {
    node->unknown = true;
    return;
  }
  node->point_to_point = true;
  if (call.peer < 0) {
    node->any_source = true;
    for (const auto& [position, member] : group->members) {
      if (member.first != node->view->rank) node->edges.push_back({member.first, &call});
    }
    return;
  }
  const auto peer = group->members.find(static_cast<uint32_t>(call.peer));
  if (peer == group->members.end()) {
    node->unknown = true;
    return;
  }
  const EventKind partner = call.kind == EventKind::kSend ? EventKind::kRecv : EventKind::kSend;
  const RankView* other = view.Find(peer->second.first);
  if (other != nullptr &&
      HasOpen(*other, partner, call.communicator, static_cast<int32_t>(own->group_rank))) {
    node->inside = true;
    node->inside_call = &call;
  } else {
    node->edges.push_back({peer->second.first, &call});
  }
}

// Ranks that have not come to the creation of a communicator, when it is one of all ranks;
// otherwise nobody knows who was to come.
void AddCommInit(const JobView& view, const OpenCall& call, WaitNode* node) {
  std::vector<Rank> missing;
  for (const auto& [rank, other] : view.ranks()) {
    const bool came = StateIn(other, call.communicator) != nullptr ||
                      HasOpen(other, EventKind::kCommInit, call.communicator, kNoPeer);
    if (!came) missing.push_back(rank);
  }
  const Group* group = view.FindGroup(call.communicator);
  const size_t came = view.ranks().size() - missing.size();
  const bool of_all = group != nullptr && group->size == view.job().world_size &&
                      view.ranks().size() == view.job().world_size;
  if (call.communicator.value == 0 || group == nullptr || (!of_all && came < group->size)) {
    node->unknown = true;
  } else if (of_all && !missing.empty()) {
    for (Rank rank : missing) node->edges.push_back({rank, &call});
  } else {
    node->inside = true;
    node->inside_call = &call;
  }
}

const OpenCall* OpenIn(const RankView& rank, CommId comm, uint64_t sequence) {
  for (const OpenCall* call : rank.waits) {
    if (call->kind == EventKind::kCollective && call->communicator == comm &&
        call->sequence == sequence) {
      return call;
    }
  }
  return nullptr;
}

// Whether the devices of others are in `call`, and that of `rank` is known not to be.
bool BegunWithout(const JobView& view, const RankView& rank, const OpenCall& call) {
  if (call.begun.value_or(true)) return false;
  const Group* group = view.FindGroup(call.communicator);
  return std::any_of(group->members.begin(), group->members.end(), [&](const auto& member) {
    const RankView* other = view.Find(member.second.first);
    if (other == nullptr || other == &rank) return false;
    const OpenCall* same = OpenIn(*other, call.communicator, call.sequence);
    return same != nullptr && same->begun.value_or(false);
  });
}

// Whether the device of `rank` is known not to have come to `call`, which the rank has called:
// calls of one communicator run one after the other.
bool DeviceBehind(const RankView& rank, const OpenCall& call) {
  for (const OpenCall* earlier : rank.left_behind) {
    if (earlier->communicator == call.communicator && earlier->sequence < call.sequence)
      return true;
  }
  if (!call.begun.value_or(false)) return false;
  const OpenCall* same = OpenIn(rank, call.communicator, call.sequence);
  return same != nullptr && !same->begun.value_or(true);
}

void AddCollective(const JobView& view, const OpenCall& call, WaitNode* node) {
  const Group* group = view.FindGroup(call.communicator);
  if (group == nullptr) {
    node->unknown = true;
    return;
  }
  const std::vector<Rank> missing = MissingMembers(view, call);
  for (Rank rank : missing) node->edges.push_back({rank, &call});
  const bool of_dump = node->view->stands_still();
  if (group->unknown_members() > 0 || (of_dump && group->size == 0)) node->unknown = true;
  if (of_dump && missing.empty() && BegunWithout(view, *node->view, call)) {
    node->device_call = &call;
  } else if (missing.empty() && !node->unknown) {
    node->inside = true;
    node->inside_call = &call;
  }
}

std::set<Rank> ReachableFrom(const WaitGraph& graph, Rank start) {
  std::set<Rank> seen;
  std::vector<Rank> todo = {start};
  while (!todo.empty()) {
    const Rank rank = todo.back();
    todo.pop_back();
    const auto node = graph.nodes.find(rank);
    if (node == graph.nodes.end()) continue;
    for (const WaitEdge& edge : node->second.edges) {
      if (seen.insert(edge.to).second) todo.push_back(edge.to);
    }
  }
  return seen;
}

// Deep jobs have few distinct waits, so the reachable sets are computed once per waiting rank; for
// thousands of waiting ranks a cycle is looked for only among those that lead to no root.
void FindCycles(WaitGraph* graph) {
  std::map<Rank, std::vector<Rank>> waited_by;
  for (const auto& [rank, node] : graph->nodes) {
    for (const WaitEdge& edge : node.edges) waited_by[edge.to].push_back(rank);
  }
  std::set<Rank> explained;
  std::vector<Rank> todo;
  for (const auto& [rank, node] : graph->nodes) {
    if (node.edges.empty()) todo.push_back(rank);
  }
  explained.insert(todo.begin(), todo.end());
  while (!todo.empty()) {
    const Rank rank = todo.back();
    todo.pop_back();
    for (Rank waiter : waited_by[rank]) {
      if (explained.insert(waiter).second) todo.push_back(waiter);
    }
  }
  std::set<Rank> done;
  for (const auto& [rank, node] : graph->nodes) {
    if (explained.contains(rank) || done.contains(rank)) continue;
    const std::set<Rank> reachable = ReachableFrom(*graph, rank);
    if (!reachable.contains(rank)) continue;
    bool closed = true;  // everybody it reaches leads back to it
    for (Rank other : reachable) closed = closed && ReachableFrom(*graph, other).contains(rank);
    if (!closed) continue;
    graph->cycles.emplace_back(reachable.begin(), reachable.end());
    done.insert(reachable.begin(), reachable.end());
  }
}

}  // namespace

std::vector<Rank> MissingMembers(const JobView& view, const OpenCall& call) {
  std::vector<Rank> missing;
  const Group* group = view.FindGroup(call.communicator);
  if (group == nullptr) return missing;
  for (const auto& [position, member] : group->members) {
    const bool came = member.second->launched > call.sequence;
    if (!came || DeviceBehind(*view.Find(member.first), call)) missing.push_back(member.first);
  }
  std::sort(missing.begin(), missing.end());
  return missing;
}

std::vector<Rank> WaitGraph::WaitersFor(const std::vector<Rank>& culprits) const {
  std::vector<Rank> waiters;
  for (const auto& [rank, node] : nodes) {
    if (std::find(culprits.begin(), culprits.end(), rank) != culprits.end()) continue;
    const std::set<Rank> reachable = ReachableFrom(*this, rank);
    const bool waits = std::any_of(culprits.begin(), culprits.end(),
                                   [&](Rank culprit) { return reachable.contains(culprit); });
    if (waits) waiters.push_back(rank);
  }
  return waiters;
}

WaitGraph BuildWaitGraph(const JobView& view, uint64_t at_least_ns) {
  WaitGraph graph;
  for (const auto& [rank, rank_view] : view.ranks()) {
    WaitNode& node = graph.nodes[rank];
    node.view = &rank_view;
    node.activity = ActivityOf(*rank_view.record);
    if (rank_view.standing != Standing::kRunning || !rank_view.Waited(at_least_ns)) continue;
    if (node.activity.busy) continue;
    if (!rank_view.left_behind.empty()) {
      node.device_call = rank_view.left_behind.front();
      continue;
    }
    for (const OpenCall* call : rank_view.waits) {
      switch (call->kind) {
        case EventKind::kCommInit:
          AddCommInit(view, *call, &node);
          break;
        case EventKind::kCollective:
          AddCollective(view, *call, &node);
          break;
        default:
          AddPointToPoint(view, *call, &node);
          break;
      }
    }
  }
  std::set<Rank> roots;
  for (const auto& [rank, node] : graph.nodes) {
    for (const WaitEdge& edge : node.edges) {
      const WaitNode& target = graph.nodes[edge.to];
      if (target.edges.empty() && !target.inside && !target.unknown) roots.insert(edge.to);
    }
  }
  for (const auto& [rank, node] : graph.nodes) {
    if (node.device_call != nullptr && node.edges.empty()) roots.insert(rank);
  }
  graph.roots.assign(roots.begin(), roots.end());
  FindCycles(&graph);
  for (const auto& [rank, node] : graph.nodes) {
    if (node.inside) graph.inside.push_back(rank);
  }
  return graph;
}

}  // namespace flare::diag
