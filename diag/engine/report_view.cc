// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/report_view.h"

#include <algorithm>
#include <set>
#include <vector>

#include "diag/detect/words.h"
#include "diag/metrics/device_total.h"
#include "diag/report/plain_text.h"
#include "diag/store/convert.h"

namespace flare::diag {
namespace {

constexpr size_t kRecentSteps = 32;

const char* CallWords(EventKind kind) {
  switch (kind) {
    case EventKind::kSend:
      return "send";
    case EventKind::kRecv:
      return "receive";
    case EventKind::kCommInit:
      return "creation of a communicator";
    case EventKind::kDataLoad:
      return "wait for the next batch of data";
    case EventKind::kBackward:
      return "backward pass";
    case EventKind::kOptimizer:
      return "optimiser step";
    case EventKind::kCheckpoint:
      return "checkpoint";
    case EventKind::kGc:
      return "Python garbage collection";
    case EventKind::kUserCall:
      return "user function";
    case EventKind::kSynchronize:
      return "synchronize";
    case EventKind::kNone:
    case EventKind::kCollective:
    case EventKind::kStep:
      break;
  }
  return "call";
}

std::string CommunicatorName(const RankState& state, CommId id) {
  for (const CommunicatorState& c : state.communicators) {
    if (c.communicator == id) return c.name;
  }
  return "";
}

std::string CallInWords(const OpenCall& call, const RankState& state) {
  std::string out;
  if (call.kind == EventKind::kCollective) {
    out = OperationText(call.operation) + (" " + std::to_string(call.sequence));
  } else {
    out = CallWords(call.kind);
  }
  if (call.kind == EventKind::kUserCall && !call.name.empty()) out += " " + call.name;
  if ((call.kind == EventKind::kSend || call.kind == EventKind::kRecv) && call.peer >= 0) {
    out += (call.kind == EventKind::kSend ? " to " : " from ") + std::to_string(call.peer);
  }
  const std::string group = CommunicatorName(state, call.communicator);
  if (!group.empty()) out += " in " + group;
  if (call.since_unix_ns != 0 && call.since_unix_ns < state.at_unix_ns) {
    out += ", for " + DurationWords(state.at_unix_ns - call.since_unix_ns);
  }
  return out;
}

// The innermost call of the main thread says most; else the call that waits longest.
const OpenCall* MostTelling(const std::vector<OpenCall>& calls) {
  const OpenCall* main = nullptr;
  const OpenCall* oldest = nullptr;
  for (const OpenCall& c : calls) {
    if (c.kind == EventKind::kNone || c.kind == EventKind::kStep) continue;
    if (c.main_thread && (!main || c.since_unix_ns >= main->since_unix_ns)) main = &c;
    if (!oldest || c.since_unix_ns < oldest->since_unix_ns) oldest = &c;
  }
  return main ? main : oldest;
}

void AddRecent(const RankRecord& rank, std::vector<uint64_t>* durations_ns) {
  const size_t n = std::min(rank.steps.size(), kRecentSteps);
  for (size_t i = rank.steps.size() - n; i < rank.steps.size(); ++i) {
    durations_ns->push_back(rank.steps[i].duration_ns);
  }
}

double MedianSeconds(std::vector<uint64_t>* durations_ns) {
  if (durations_ns->empty()) return 0;
  const auto middle = durations_ns->begin() + static_cast<ptrdiff_t>(durations_ns->size() / 2);
  std::nth_element(durations_ns->begin(), middle, durations_ns->end());
  return static_cast<double>(*middle) / 1e9;
}

uint64_t StepsDone(const RankRecord& rank) {
  if (rank.steps.empty()) return rank.state.steps;
  const uint64_t last = rank.steps.back().step.value;
  // The number of a stretch of time counts nothing.
  return std::max(rank.state.steps, last < kFirstPseudoStep ? last + 1 : rank.steps.size());
}

}  // namespace

bool IsOver(const RankRecord& rank) {
  const Life life = rank.state.process.life;
  return life == Life::kExited || life == Life::kDied;
}

bool IsStopped(const RankRecord& rank) {
  const char s = rank.state.process.run_state;
  return !IsOver(rank) && (s == 'T' || s == 't');
}

std::string DoingInWords(const RankState& state) {
  if (const OpenCall* call = MostTelling(state.open_calls)) return CallInWords(*call, state);
  if (state.process.python_stack.empty()) return "";
  const StackFrame& f = state.process.python_stack.front();
  return f.function + " (" + f.file + ":" + std::to_string(f.line) + ")";
}

v1::RankSummary SummarizeRank(const RankRecord& rank, bool silent) {
  v1::RankSummary out;
  out.set_rank(rank.rank.value);
  out.set_node(rank.node);
  out.set_pid(rank.pid);
  const ProcessState& p = rank.state.process;
  out.set_state(p.life == Life::kExited ? "exited"
                : p.life == Life::kDied ? "died"
                : silent                ? "lost"
                : IsStopped(rank)       ? "stopped"
                                        : "running");
  out.set_steps(StepsDone(rank));
  std::vector<uint64_t> durations_ns;
  AddRecent(rank, &durations_ns);
  out.set_step_seconds_median(MedianSeconds(&durations_ns));
  out.set_doing(DoingInWords(rank.state));
  out.set_exit_code(p.exit_code);
  if (!p.exception_type.empty()) {
    out.set_exception(p.exception_text.empty() ? p.exception_type
                                               : p.exception_type + ": " + p.exception_text);
  }
  for (const PartStatus& s : rank.parts) {
    v1::PartStatus* m = out.add_parts();
    m->set_part(s.part);
    m->set_state(s.state);
  }
  return out;
}

v1::RankProfile ProfileOf(const RankRecord& rank, size_t most_steps) {
  v1::RankProfile out;
  out.set_rank(rank.rank.value);
  const RankDevice over = DeviceOver(rank, most_steps);
  out.set_steps(over.steps);
  out.set_steps_ns(over.steps_ns);
  // A recording knows what lies outside of its steps too. Of several, only one is kept.
  const bool whole = rank.recording && rank.recording->kernels >= over.device.kernels;
  if (whole || over.steps > 0) {
    *out.mutable_device() = DeviceToProto(whole ? *rank.recording : over.device);
  }
  return out;
}

v1::JobSummary SummarizeJob(const Job& job) {
  v1::JobSummary out;
  out.set_job(job.id);
  out.set_name(job.name);
  out.set_attempt(job.attempt);
  out.set_world_size(job.world_size);
  out.set_ranks_seen(static_cast<uint32_t>(job.ranks.size()));
  out.set_first_seen_unix_ns(job.first_seen_unix_ns);
  out.set_last_seen_unix_ns(job.last_heard_unix_ns);
  out.set_exit_status(job.exit_status);
  uint32_t alive = 0;
  uint64_t steps = job.ranks.empty() ? 0 : UINT64_MAX;
  std::set<std::string> nodes;
  std::vector<uint64_t> durations_ns;
  for (const auto& [number, rank] : job.ranks) {
    if (!IsOver(rank)) ++alive;
    steps = std::min(steps, StepsDone(rank));
    if (!rank.node.empty()) nodes.insert(rank.node);
    if (out.framework().empty()) out.set_framework(rank.framework);
    AddRecent(rank, &durations_ns);
  }
  out.set_ranks_alive(job.ended ? 0 : alive);
  out.set_steps(steps);
  out.set_step_seconds_median(MedianSeconds(&durations_ns));
  for (const std::string& n : nodes) out.add_nodes(n);
  return out;
}

}  // namespace flare::diag
