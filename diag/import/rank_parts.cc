// SPDX-License-Identifier: Apache-2.0
#include "diag/import/rank_parts.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "diag/import/check.h"

namespace flare::import {
namespace {

using diag::RankState;
using diag::RankStep;

constexpr uint64_t kOneMomentNs = 10'000'000'000;

bool SameStep(const RankStep& a, const RankStep& b) {
  return a.step == b.step && a.start_unix_ns == b.start_unix_ns && a.duration_ns == b.duration_ns &&
         a.communication_ns == b.communication_ns && a.events == b.events &&
         a.communicators.size() == b.communicators.size() &&
         a.device.has_value() == b.device.has_value() &&
         (!a.device ||
          (a.device->kernels == b.device->kernels && a.device->busy_ns == b.device->busy_ns));
}

bool SameState(const RankState& a, const RankState& b) {
  const auto same_call = [](const diag::OpenCall& x, const diag::OpenCall& y) {
    return x.kind == y.kind && x.sequence == y.sequence && x.communicator == y.communicator &&
           x.since_unix_ns == y.since_unix_ns;
  };
  const auto same_comm = [](const diag::CommunicatorState& x, const diag::CommunicatorState& y) {
    return x.communicator == y.communicator && x.launched == y.launched &&
           x.completed == y.completed;
  };
  const auto same_thread = [](const diag::ThreadStack& x, const diag::ThreadStack& y) {
    return x.id == y.id && x.frames.size() == y.frames.size();
  };
  return a.at_unix_ns == b.at_unix_ns && a.process.life == b.process.life &&
         a.process.exit_code == b.process.exit_code &&
         a.process.exception_text == b.process.exception_text &&
         std::equal(a.open_calls.begin(), a.open_calls.end(), b.open_calls.begin(),
                    b.open_calls.end(), same_call) &&
         std::equal(a.communicators.begin(), a.communicators.end(), b.communicators.begin(),
                    b.communicators.end(), same_comm) &&
         std::equal(a.process.threads.begin(), a.process.threads.end(), b.process.threads.begin(),
                    b.process.threads.end(), same_thread);
}

bool ShareSteps(const std::deque<RankStep>& a, const std::deque<RankStep>& b) {
  std::set<StepId> numbers;
  for (const RankStep& step : a) numbers.insert(step.step);
  return std::any_of(b.begin(), b.end(),
                     [&](const RankStep& step) { return numbers.contains(step.step); });
}

Window StepWindow(const std::deque<RankStep>& steps) {
  Window window;
  for (const RankStep& step : steps) {
    if (step.start_unix_ns == 0) continue;
    if (window.empty() || step.start_unix_ns < window.first_ns)
      window.first_ns = step.start_unix_ns;
    window.last_ns = std::max(window.last_ns, step.start_unix_ns + step.duration_ns);
  }
  return window;
}

// How much the steps of a file tell.
int Richness(const std::deque<RankStep>& steps) {
  int richness = 0;
  for (const RankStep& step : steps) {
    if (step.device) return 2;
    if (!step.communicators.empty() || !step.phases.empty()) richness = 1;
  }
  return richness;
}

uint64_t LastActivity(const RankState& state) {
  return std::max(state.last_progress_unix_ns, state.last_step_unix_ns);
}

template <typename List>
void TakeIfEmpty(List from, List* to) {
  if (to->empty()) *to = std::move(from);
}

// What `state` does not say and `other`, a look at the same moment, does.
void Complement(RankState other, RankState* state) {
  TakeIfEmpty(std::move(other.open_calls), &state->open_calls);
  TakeIfEmpty(std::move(other.communicators), &state->communicators);
  diag::ProcessState& process = state->process;
  diag::ProcessState& from = other.process;
  TakeIfEmpty(std::move(from.python_stack), &process.python_stack);
  TakeIfEmpty(std::move(from.threads), &process.threads);
  TakeIfEmpty(std::move(from.exception_text), &process.exception_text);
  TakeIfEmpty(std::move(from.exception_type), &process.exception_type);
  TakeIfEmpty(std::move(from.syscall), &process.syscall);
  TakeIfEmpty(std::move(from.wait_channel), &process.wait_channel);
  // An end that one file tells is the end, whatever another saw before.
  if (from.life > process.life) {
    process.life = from.life;
    process.exit_code = from.exit_code;
  }
  if (process.run_state == 0) process.run_state = from.run_state;
  if (state->at_unix_ns == 0) state->at_unix_ns = other.at_unix_ns;
  state->stands_still = state->stands_still || other.stands_still;
  if (!state->last_call) state->last_call = std::move(other.last_call);
  state->steps = std::max(state->steps, other.steps);
  state->last_step_unix_ns = std::max(state->last_step_unix_ns, other.last_step_unix_ns);
  state->last_progress_unix_ns =
      std::max(state->last_progress_unix_ns, other.last_progress_unix_ns);
}

void MergeStates(RankState more, bool same_kind, RankState* state,
                 std::vector<std::string>* notes) {
  if (!HasState(more)) return;
  if (!HasState(*state)) {
    *state = std::move(more);
    return;
  }
  if (more.at_unix_ns > state->at_unix_ns) std::swap(more, *state);
  if (same_kind) {
    notes->push_back("several dumps of one process: the last one is used");
    return;
  }
  const bool apart = more.at_unix_ns != 0 && state->at_unix_ns > more.at_unix_ns + kOneMomentNs;
  if (apart && LastActivity(*state) > more.at_unix_ns) {
    notes->push_back("a dump that was taken before the process moved on is left out");
    return;
  }
  Complement(std::move(more), state);
}

void MergeSteps(std::deque<RankStep> more, const std::string& more_kind,
                std::deque<RankStep>* steps, std::string* kind, std::vector<std::string>* notes) {
  if (more.empty()) return;
  if (steps->empty()) {
    *steps = std::move(more);
    *kind = more_kind;
    return;
  }
  if (more_kind == *kind) {
    std::move(more.begin(), more.end(), std::back_inserter(*steps));
    std::stable_sort(steps->begin(), steps->end(),
                     [](const RankStep& a, const RankStep& b) { return a.step < b.step; });
    return;
  }
  // Two tools number steps each in its own way: they cannot be mixed.
  const int rich = Richness(*steps), more_rich = Richness(more);
  const bool takes = more_rich > rich || (more_rich == rich && more.size() > steps->size());
  const std::string& left = takes ? *kind : more_kind;
  const std::string& used = takes ? more_kind : *kind;
  notes->push_back("steps are told by " + used + " and by " + left + " files; those of " + used +
                   " are used");
  if (!takes) return;
  *steps = std::move(more);
  *kind = more_kind;
}

}  // namespace

bool HasState(const RankState& state) {
  const diag::ProcessState& process = state.process;
  return state.at_unix_ns != 0 || process.life != diag::Life::kUnknown ||
         !state.open_calls.empty() || !state.communicators.empty() || !process.threads.empty() ||
         !process.python_stack.empty() || !process.exception_type.empty() ||
         !process.exception_text.empty();
}

bool SameContent(const RankFragment& a, const RankFragment& b) {
  return a.record.pid == b.record.pid && a.record.node == b.record.node &&
         std::equal(a.record.steps.begin(), a.record.steps.end(), b.record.steps.begin(),
                    b.record.steps.end(), SameStep) &&
         SameState(a.record.state, b.record.state);
}

bool CanBeOneProcess(const RankFragment& a, const RankFragment& b) {
  if (SameContent(a, b)) return true;
  const diag::RankRecord& x = a.record;
  const diag::RankRecord& y = b.record;
  // Only a pid makes one process of two windows; without it they may as well be two runs.
  if (x.pid == 0 || x.pid != y.pid || (!x.node.empty() && !y.node.empty() && x.node != y.node)) {
    return false;
  }
  if (!x.steps.empty() && !y.steps.empty()) {
    const Window s = StepWindow(x.steps), t = StepWindow(y.steps);
    if (ShareSteps(x.steps, y.steps)) return false;
    if (s.first_ns < t.last_ns && t.first_ns < s.last_ns) return false;
  }
  const bool both_states = HasState(x.state) && HasState(y.state);
  return !both_states || x.state.at_unix_ns != y.state.at_unix_ns;
}

Window WindowOf(const RankFragment& rank) {
  Window window = StepWindow(rank.record.steps);
  const uint64_t at = rank.record.state.at_unix_ns;
  if (at == 0) return window;
  if (window.empty()) return {at, at};
  return {std::min(window.first_ns, at), std::max(window.last_ns, at)};
}

uint64_t Gap(const Window& a, const Window& b) {
  if (a.empty() || b.empty()) return 0;
  if (a.last_ns < b.first_ns) return b.first_ns - a.last_ns;
  return b.last_ns < a.first_ns ? a.first_ns - b.last_ns : 0;
}

void MergeRank(RankFragment more, const std::string& more_kind, RankFragment* rank,
               std::string* kind, std::vector<std::string>* notes) {
  diag::RankRecord& record = rank->record;
  diag::RankRecord& from = more.record;
  const bool same_kind = more_kind == *kind;
  if (same_kind && SameContent(*rank, more)) {
    notes->push_back("a copy of another file is left out");
    return;
  }
  for (const auto field : {&diag::RankRecord::node, &diag::RankRecord::framework,
                           &diag::RankRecord::python, &diag::RankRecord::library_version,
                           &diag::RankRecord::work_unit}) {
    TakeIfEmpty(std::move(from.*field), &(record.*field));
  }
  if (record.pid == 0) record.pid = from.pid;
  if (record.started_unix_ns == 0) record.started_unix_ns = from.started_unix_ns;
  record.ended_unix_ns = std::max(record.ended_unix_ns, from.ended_unix_ns);
  if (record.stopped_since_unix_ns == 0) record.stopped_since_unix_ns = from.stopped_since_unix_ns;
  rank->world_size = std::max(rank->world_size, more.world_size);
  rank->steps_left_out += more.steps_left_out;
  std::move(more.collective_ends.begin(), more.collective_ends.end(),
            std::back_inserter(rank->collective_ends));
  // Of several recordings of one process the one that saw most.
  if (from.recording && (!record.recording || record.recording->kernels < from.recording->kernels)) {
    record.recording = std::move(from.recording);
  }
  MergeStates(std::move(from.state), same_kind, &record.state, notes);
  MergeSteps(std::move(from.steps), more_kind, &record.steps, kind, notes);
}

void ShiftTime(int64_t offset_ns, uint64_t* at) {
  if (*at == 0) return;
  const int64_t moved = static_cast<int64_t>(*at) + offset_ns;
  *at = moved < 1 ? 1 : std::min(static_cast<uint64_t>(moved), kLastUnixNs - 1);
}

void ShiftTimes(int64_t offset_ns, RankFragment* rank) {
  diag::RankRecord& record = rank->record;
  RankState& state = record.state;
  for (uint64_t* at :
       {&record.started_unix_ns, &record.ended_unix_ns, &record.stopped_since_unix_ns,
        &state.at_unix_ns, &state.last_step_unix_ns, &state.last_progress_unix_ns}) {
    ShiftTime(offset_ns, at);
  }
  for (RankStep& step : record.steps) ShiftTime(offset_ns, &step.start_unix_ns);
  for (diag::OpenCall& call : state.open_calls) ShiftTime(offset_ns, &call.since_unix_ns);
  if (state.last_call) ShiftTime(offset_ns, &state.last_call->since_unix_ns);
  for (diag::CommunicatorState& comm : state.communicators) {
    for (diag::Signature& call : comm.recent) ShiftTime(offset_ns, &call.launched_unix_ns);
  }
  for (CollectiveEnd& end : rank->collective_ends) ShiftTime(offset_ns, &end.at_unix_ns);
}

}  // namespace flare::import
