// SPDX-License-Identifier: Apache-2.0
#include "tests/diag/detect/job_builder.h"

namespace flare::diag {
namespace {

constexpr uint64_t kStepNs = 100'000'000;
constexpr size_t kRecent = 64;

}  // namespace

Signature CallOf(Operation operation, uint64_t sequence, uint64_t bytes, int32_t peer) {
  Signature call;
  call.sequence = sequence;
  call.operation = operation;
  call.data_type = operation == Operation::kBarrier ? DataType::kUnknown : DataType::kFloat32;
  call.bytes = bytes;
  call.peer = peer;
  return call;
}

Signature AllReduceOf(uint64_t sequence, uint64_t bytes) {
  return CallOf(Operation::kAllReduce, sequence, bytes);
}

Signature AllReduce(uint64_t sequence) { return AllReduceOf(sequence, BucketBytes(sequence)); }

std::vector<StackFrame> AllReduceFrames() {
  return {
      {"all_reduce", "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 2},
      UserFrame()};
}

std::vector<StackFrame> BackwardFrames() {
  return {{"_engine_run_backward", "/v/lib/python3.11/site-packages/torch/autograd/graph.py", 768},
          {"backward", "/v/lib/python3.11/site-packages/torch/_tensor.py", 521},
          UserFrame()};
}

StackFrame UserFrame() { return {"train_step", "/home/u/train.py", 41}; }

CommunicatorState& RankBuilder::Comm(CommId comm) {
  for (CommunicatorState& state : record_->state.communicators) {
    if (state.communicator == comm) return state;
  }
  CommunicatorState state;
  state.communicator = comm;
  record_->state.communicators.push_back(state);
  return record_->state.communicators.back();
}

RankBuilder& RankBuilder::Joins(CommId comm, std::string name, uint32_t group_rank,
                                uint32_t group_size) {
  CommunicatorState& state = Comm(comm);
  state.name = std::move(name);
  state.group_rank = group_rank;
  state.group_size = group_size;
  return *this;
}

RankBuilder& RankBuilder::Calls(CommId comm, Signature call, double s_ago) {
  CommunicatorState& state = Comm(comm);
  call.launched_unix_ns = SecondsAgo(s_ago);
  state.recent.push_back(call);
  if (state.recent.size() > kRecent) state.recent.erase(state.recent.begin());
  state.launched = call.sequence + 1;
  return *this;
}

RankBuilder& RankBuilder::Completes(CommId comm, uint32_t count, double last_s_ago) {
  for (uint32_t i = 0; i < count; ++i) {
    const double s_ago = last_s_ago + 0.025 * (count - 1 - i);
    Calls(comm, AllReduce(Comm(comm).launched), s_ago);
  }
  Comm(comm).completed = Comm(comm).launched;
  return *this;
}

OpenCall& RankBuilder::Open(EventKind kind, CommId comm, double since_s_ago) {
  OpenCall call;
  call.kind = kind;
  call.communicator = comm;
  call.since_unix_ns = SecondsAgo(since_s_ago);
  record_->state.open_calls.push_back(call);
  return record_->state.open_calls.back();
}

RankBuilder& RankBuilder::WaitsIn(CommId comm, const Signature& signature, double since_s_ago) {
  Calls(comm, signature, since_s_ago);
  OpenCall& call = Open(EventKind::kCollective, comm, since_s_ago);
  call.sequence = signature.sequence;
  call.operation = signature.operation;
  call.data_type = signature.data_type;
  call.bytes = signature.bytes;
  NoProgressFor(since_s_ago);
  if (record_->state.process.python_stack.empty()) Frames(AllReduceFrames());
  return Syscall("futex");
}

RankBuilder& RankBuilder::WaitsIn(CommId comm, double since_s_ago) {
  return WaitsIn(comm, AllReduce(Comm(comm).launched), since_s_ago);
}

RankBuilder& RankBuilder::Sends(CommId comm, int32_t peer, double since_s_ago) {
  OpenCall& call = Open(EventKind::kSend, comm, since_s_ago);
  call.peer = peer;
  call.main_thread = true;
  return NoProgressFor(since_s_ago);
}

RankBuilder& RankBuilder::Receives(CommId comm, int32_t peer, double since_s_ago) {
  OpenCall& call = Open(EventKind::kRecv, comm, since_s_ago);
  call.peer = peer;
  call.main_thread = true;
  return NoProgressFor(since_s_ago);
}

RankBuilder& RankBuilder::CreatesGroup(CommId comm, double since_s_ago) {
  Open(EventKind::kCommInit, comm, since_s_ago).main_thread = true;
  return NoProgressFor(since_s_ago);
}

RankBuilder& RankBuilder::InCall(EventKind kind, double since_s_ago) {
  Open(kind, CommId(), since_s_ago).main_thread = true;
  return *this;
}

RankBuilder& RankBuilder::NoProgressFor(double seconds) {
  record_->state.last_progress_unix_ns = SecondsAgo(seconds);
  return *this;
}

RankBuilder& RankBuilder::LooksOld(double seconds) {
  record_->state.at_unix_ns = SecondsAgo(seconds);
  return *this;
}

RankBuilder& RankBuilder::RunState(char state) {
  record_->state.process.run_state = state;
  return *this;
}

RankBuilder& RankBuilder::StoppedFor(double seconds) {
  RunState('T');
  record_->stopped_since_unix_ns = SecondsAgo(seconds);
  return NoProgressFor(seconds);
}

RankBuilder& RankBuilder::Died(double s_ago) {
  ProcessState& process = record_->state.process;
  process.life = Life::kDied;
  process.run_state = 0;
  record_->ended_unix_ns = SecondsAgo(s_ago);
  record_->state.at_unix_ns = SecondsAgo(s_ago);
  record_->state.open_calls.clear();
  return NoProgressFor(s_ago + 0.05);
}

RankBuilder& RankBuilder::Exited(int32_t code, double s_ago) {
  Died(s_ago);
  record_->state.process.life = Life::kExited;
  record_->state.process.exit_code = code;
  return *this;
}

RankBuilder& RankBuilder::Raised(std::string type, std::string text) {
  record_->state.process.exception_type = std::move(type);
  record_->state.process.exception_text = std::move(text);
  return *this;
}

RankBuilder& RankBuilder::Syscall(std::string name, std::string path) {
  record_->state.process.syscall = std::move(name);
  record_->state.process.syscall_path = std::move(path);
  return *this;
}

RankBuilder& RankBuilder::Cpu(double share) {
  const uint64_t wall = 500'000'000;
  record_->previous_at_unix_ns = record_->state.at_unix_ns - wall;
  record_->previous_main_thread_cpu_ns = 1'000'000'000;
  record_->state.process.main_thread_cpu_ns =
      1'000'000'000 + static_cast<uint64_t>(share * static_cast<double>(wall));
  return *this;
}

RankBuilder& RankBuilder::Frames(std::vector<StackFrame> innermost_first) {
  record_->state.process.python_stack = std::move(innermost_first);
  return *this;
}

RankBuilder& RankBuilder::Steps(uint64_t steps) {
  record_->state.steps = steps;
  return *this;
}

JobBuilder::JobBuilder(uint32_t ranks, uint64_t steps) {
  job.id = "job";
  job.world_size = ranks;
  job.first_seen_unix_ns = SecondsAgo(100);
  job.last_heard_unix_ns = now();
  for (uint32_t r = 0; r < ranks; ++r) {
    RankRecord& record = job.ranks[Rank(r)];
    record.rank = Rank(r);
    record.node = r % 2 == 0 ? "a" : "b";
    record.pid = 1000 + r;
    record.state.at_unix_ns = now();
    record.state.process.life = Life::kRunning;
    record.state.process.run_state = 'S';
    for (uint64_t s = 0; s < steps; ++s) {
      RankStep step;
      step.step = StepId(s);
      step.start_unix_ns = now() - 30'000'000'000 - (steps - s) * kStepNs;
      step.duration_ns = kStepNs;
      step.communication_ns = kStepNs / 5;
      step.cpu_ns = kStepNs / 2;
      CommunicatorStep comm;
      comm.communicator = kDefaultGroup;
      comm.first_sequence = s * kCallsPerStep;
      comm.count = kCallsPerStep;
      comm.duration_us.assign(kCallsPerStep, 5000);
      comm.signature_hash = 1000 + s;
      comm.operations = {{Operation::kAllReduce, DataType::kFloat32, kCallsPerStep, 15 * 1024, 1}};
      step.communicators.push_back(std::move(comm));
      record.steps.push_back(std::move(step));
    }
    RankBuilder rank(&record);
    rank.Joins(kDefaultGroup, "default_pg", r, ranks).Steps(steps).NoProgressFor(0.05);
    rank.Comm(kDefaultGroup).launched = steps * kCallsPerStep;
    rank.Comm(kDefaultGroup).completed = steps * kCallsPerStep;
    if (steps < 4) continue;
    rank.Comm(kDefaultGroup).launched -= 4 * kCallsPerStep;
    rank.Completes(kDefaultGroup, 4 * kCallsPerStep, 30);
  }
}

JobBuilder& JobBuilder::Group(CommId comm, const std::string& name,
                              const std::vector<uint32_t>& ranks) {
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    (*this)[ranks[i]].Joins(comm, name, i, static_cast<uint32_t>(ranks.size()));
  }
  return *this;
}

}  // namespace flare::diag
