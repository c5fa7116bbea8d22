// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diag/model/job.h"

// Builds the view that the engine has of a training job, in few words, for tests of detectors.
//
// A job of `ranks` ranks starts healthy: all run, each has done `steps` steps of 100 ms with
// kCallsPerStep all-reduces in the group "default_pg", and nobody waits. Times are given as
// "seconds ago", counted back from now().
namespace flare::diag {

inline constexpr CommId kDefaultGroup{0xd0};
inline constexpr uint32_t kCallsPerStep = 4;
inline constexpr uint64_t kTestNow = 1'800'000'000'000'000'000;

// Size of the i-th all-reduce of a step: the buckets differ.
constexpr uint64_t BucketBytes(uint64_t sequence) {
  return uint64_t{1024} << (sequence % kCallsPerStep);
}

class RankBuilder {
 public:
  explicit RankBuilder(RankRecord* record) : record_(record) {}

  // Waits in the next collective of a group (or in the one given), which counts as launched.
  RankBuilder& WaitsIn(CommId comm, double since_s_ago);
  RankBuilder& WaitsIn(CommId comm, const Signature& call, double since_s_ago);
  RankBuilder& Sends(CommId comm, int32_t peer, double since_s_ago);
  RankBuilder& Receives(CommId comm, int32_t peer, double since_s_ago);
  RankBuilder& CreatesGroup(CommId comm, double since_s_ago);
  RankBuilder& InCall(EventKind kind, double since_s_ago);  // of the main thread
  RankBuilder& NoProgressFor(double seconds);
  RankBuilder& LooksOld(double seconds);  // the state is this old

  RankBuilder& RunState(char state);
  RankBuilder& StoppedFor(double seconds);
  RankBuilder& Died(double s_ago);
  RankBuilder& Exited(int32_t code, double s_ago);
  RankBuilder& Raised(std::string type, std::string text);
  RankBuilder& Syscall(std::string name, std::string path = "");
  RankBuilder& Cpu(double share);
  RankBuilder& Frames(std::vector<StackFrame> innermost_first);

  // Launched and completed, with signatures, `count` more collectives.
  RankBuilder& Completes(CommId comm, uint32_t count, double last_s_ago);
  RankBuilder& Calls(CommId comm, Signature call, double s_ago);
  RankBuilder& Steps(uint64_t steps);
  RankBuilder& Joins(CommId comm, std::string name, uint32_t group_rank, uint32_t group_size);

  CommunicatorState& Comm(CommId comm);
  RankRecord& record() { return *record_; }

 private:
  OpenCall& Open(EventKind kind, CommId comm, double since_s_ago);
  RankRecord* record_;
};

class JobBuilder {
 public:
  explicit JobBuilder(uint32_t ranks, uint64_t steps = 60);

  RankBuilder operator[](uint32_t rank) { return RankBuilder(&job.ranks.at(Rank(rank))); }
  // A group of these ranks, in this order.
  JobBuilder& Group(CommId comm, const std::string& name, const std::vector<uint32_t>& ranks);
  static constexpr uint64_t now() { return kTestNow; }

  Job job;
};

constexpr uint64_t SecondsAgo(double seconds) {
  return kTestNow - static_cast<uint64_t>(seconds * 1e9);
}

// The signature of the all-reduce with this sequence number in the healthy job.
Signature AllReduce(uint64_t sequence);
Signature AllReduceOf(uint64_t sequence, uint64_t bytes);
Signature CallOf(Operation operation, uint64_t sequence, uint64_t bytes, int32_t peer = kNoPeer);

// Frames as they appear in real stacks.
std::vector<StackFrame> AllReduceFrames();  // innermost in torch.distributed
std::vector<StackFrame> BackwardFrames();   // innermost in the autograd engine
StackFrame UserFrame();                     // train.py

}  // namespace flare::diag
