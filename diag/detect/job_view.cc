// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/job_view.h"

#include <algorithm>
#include <cstdio>

#include "diag/detect/words.h"
#include "diag/metrics/step_time.h"

namespace flare::diag {
namespace {

constexpr uint32_t kStepsToKnowTheJob = 3;
constexpr size_t kGapsToKnowTheJob = 8;

bool IsWait(EventKind kind) {
  return kind == EventKind::kCollective || kind == EventKind::kSend || kind == EventKind::kRecv ||
         kind == EventKind::kCommInit;
}

// No member of these can finish before all have sent their part.
bool NeedsAll(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kAllGather ||
         operation == Operation::kReduceScatter || operation == Operation::kAllToAll ||
         operation == Operation::kBarrier;
}

uint64_t Since(uint64_t at, uint64_t earlier) { return at > earlier ? at - earlier : 0; }

std::string HexName(CommId id) {
  char text[32];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(id.value));
  return text;
}

// For jobs without steps: the longest pause between collectives launched one after the other.
uint64_t LongestPause(const Job& job) {
  uint64_t longest = 0;
  size_t gaps = 0;
  for (const auto& [rank, record] : job.ranks) {
    std::vector<uint64_t> launches;
    for (const CommunicatorState& comm : record.state.communicators) {
      for (const Signature& signature : comm.recent) launches.push_back(signature.launched_unix_ns);
    }
    std::sort(launches.begin(), launches.end());
    for (size_t i = 1; i < launches.size(); ++i, ++gaps) {
      longest = std::max(longest, launches[i] - launches[i - 1]);
    }
  }
  return gaps >= kGapsToKnowTheJob ? longest : 0;
}

}  // namespace

JobView::JobView(const Job& job, uint64_t now_unix_ns, const HangSettings& settings)
    : job_(job), now_(now_unix_ns), settings_(settings) {
  for (const auto& [rank, record] : job.ranks) {
    AddRank(record);
    AddGroups(record);
  }
  for (auto& [rank, view] : ranks_) FindLeftBehind(&view);
  stall_ns_ = StallTime();
}

void JobView::AddRank(const RankRecord& record) {
  const RankState& state = record.state;
  RankView view;
  view.rank = record.rank;
  view.record = &record;
  const bool fresh = state.at_unix_ns != 0 && Since(now_, state.at_unix_ns) <= settings_.fresh_ns;
  const char run_state = state.process.run_state;
  if (state.process.life == Life::kExited) {
    view.standing = Standing::kExited;
  } else if (state.process.life == Life::kDied) {
    view.standing = Standing::kDied;
  } else if (state.stands_still) {
    view.standing = Standing::kRunning;  // whoever wrote a dump lived
  } else if (fresh && state.process.life == Life::kRunning) {
    view.standing = run_state == 'T' || run_state == 't' ? Standing::kStopped : Standing::kRunning;
  }
  if (view.ended()) {
    view.ended_unix_ns = record.ended_unix_ns != 0 ? record.ended_unix_ns : state.at_unix_ns;
  }
  if (view.alive()) ++alive_;
  if (state.last_progress_unix_ns != 0) {
    view.idle_ns = Since(state.at_unix_ns, state.last_progress_unix_ns);
  }
  for (const OpenCall& call : state.open_calls) {
    if (!IsWait(call.kind)) continue;
    view.waits.push_back(&call);
    if (view.longest_wait == nullptr || call.since_unix_ns < view.longest_wait->since_unix_ns) {
      view.longest_wait = &call;
    }
  }
  if (view.longest_wait != nullptr) {
    const uint64_t began = std::max(view.longest_wait->since_unix_ns, state.last_progress_unix_ns);
    view.wait_ns = Since(state.at_unix_ns, began);
  }
  ranks_[record.rank] = std::move(view);
}

void JobView::AddGroups(const RankRecord& record) {
  for (const CommunicatorState& state : record.state.communicators) {
    if (state.communicator.value == 0) continue;
    Group& group = groups_[state.communicator];
    group.id = state.communicator;
    group.size = std::max(group.size, state.group_size);
    group.members[state.group_rank] = {record.rank, &state};
    if (group.name.empty()) group.name = state.name;
    if (group.name.empty()) group.name = HexName(group.id);
  }
}

void JobView::FindLeftBehind(RankView* rank) const {
  if (!rank->stands_still()) return;
  for (const OpenCall* call : rank->waits) {
    if (call->kind != EventKind::kCollective || !NeedsAll(call->operation)) continue;
    const Group* group = FindGroup(call->communicator);
    if (group == nullptr) continue;
    const bool finished =
        std::any_of(group->members.begin(), group->members.end(), [&](const auto& member) {
          return member.second.first != rank->rank &&
                 member.second.second->completed > call->sequence;
        });
    if (finished) rank->left_behind.push_back(call);
  }
  std::stable_sort(
      rank->left_behind.begin(), rank->left_behind.end(),
      [](const OpenCall* a, const OpenCall* b) { return a->since_unix_ns < b->since_unix_ns; });
}

uint64_t JobView::StallTime() {
  bool started = false;
  for (const auto& [id, group] : groups_) {
    for (const auto& [position, member] : group.members) {
      if (member.second->completed > 0) started = true;
    }
  }
  if (!started) return settings_.startup_stall_ns;
  const StepTime step_time = StepTimeOf(job_);
  slow_step_ns_ = step_time.steps >= kStepsToKnowTheJob ? step_time.slow_ns : LongestPause(job_);
  if (slow_step_ns_ == 0) return settings_.max_stall_ns;
  const auto scaled =
      static_cast<uint64_t>(settings_.slow_steps * static_cast<double>(slow_step_ns_));
  return std::clamp(scaled, settings_.min_stall_ns, settings_.max_stall_ns);
}

const RankView* JobView::Find(Rank rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : &found->second;
}

const Group* JobView::FindGroup(CommId id) const {
  const auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : &found->second;
}

std::vector<const RankView*> JobView::Waiting(uint64_t at_least_ns) const {
  std::vector<const RankView*> waiting;
  for (const auto& [rank, view] : ranks_) {
    if (view.standing == Standing::kRunning && view.Waited(at_least_ns)) waiting.push_back(&view);
  }
  return waiting;
}

bool RankView::IsLeftBehind(const OpenCall& call) const {
  return std::find(left_behind.begin(), left_behind.end(), &call) != left_behind.end();
}

std::string WaitedText(const RankView& rank) {
  if (!rank.stands_still()) return DurationText(rank.wait_ns);
  return rank.wait_ns == 0 ? "" : "at least " + DurationText(rank.wait_ns);
}

std::string WaitText(const JobView& view, const OpenCall& call) {
  std::string text = CallText(call);
  if (const Group* group = view.FindGroup(call.communicator)) text += " of group " + group->name;
  return text;
}

}  // namespace flare::diag
