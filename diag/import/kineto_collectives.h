// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "diag/import/json_args.h"
#include "diag/import/profile_builder.h"

// Puts together what one trace tells about collectives: calls on the host ("record_param_comms"),
// marks around them ("nccl:all_reduce"), kernels on the device, process groups in the header.
//
// A kernel belongs to the call that its own arguments describe, else to that of its external id,
// else to the one that was running on the host when it was launched. A communicator is known on all
// ranks by the name of its process group and its members. Where neither is recorded, kernels of one
// stream are numbered in order, and the communicator is named after the sequence of their names:
// ranks that ran another sequence do not meet.
namespace flare::import {

// The members of process groups by name, as the header of a trace lists them.
using KinetoGroups = std::map<std::string, std::vector<uint32_t>, std::less<>>;
// From "distributedInfo".
KinetoGroups ReadKinetoGroups(const JsonArgs& distributed_info);

class KinetoCollectives {
 public:
  static constexpr size_t kMaxCalls = 1 << 20;

  // `groups` must outlive this.
  void SetGroups(const KinetoGroups* groups) { header_groups_ = groups; }
  // Must come before Finish().
  void SetJob(std::optional<uint32_t> rank, uint32_t world_size);

  // record_param_comms; `args` may be null when it has none.
  void AddCall(int64_t begin_ns, int64_t duration_ns, uint64_t external_id, const JsonArgs* args);
  // "nccl:all_reduce" within a call: names its operation, type and size. Of gloo it is all there
  // is, and lasts as long as the collective.
  void AddMark(std::string_view name, int64_t begin_ns, int64_t duration_ns, const JsonArgs* args);
  // Returns the tag to add the kernel with.
  uint32_t AddKernel(std::string_view name, const DeviceActivity& activity, uint64_t external_id,
                     const JsonArgs& args);

  // Adds everything to the builder that holds the kernels.
  void Finish(ProfileBuilder* builder, std::vector<std::string>* notes);

 private:
  static constexpr uint64_t kNoSequence = UINT64_MAX;
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Group {
    std::string name;   // for people
    std::string ranks;  // text that is equal on all members; empty: not told
    std::vector<uint32_t> members;
    uint32_t size = 0;
    bool by_address = false;  // named by an address in this process
    CommId id;                // set by Finish()
    uint64_t calls = 0;       // numbered so far, where sequence numbers are not told
    uint64_t unnumbered = 0;  // hash of those calls; 0: there are none
  };
  struct Call {
    int64_t begin_ns = 0, end_ns = 0;
    uint64_t external_id = 0;
    uint64_t sequence = kNoSequence;
    uint64_t bytes = 0;
    uint32_t group = kNone;
    Operation operation = Operation::kUnknown;
    DataType data_type = DataType::kUnknown;
    bool used = false;
  };
  struct Kernel {
    int64_t begin_ns = 0, duration_ns = 0, launched_ns = kUnknownTime;
    uint64_t correlation = 0, external_id = 0, stream = 0;
    uint64_t name_hash = 0;
    uint32_t device = 0;
    uint32_t call = kNone;
    Operation operation = Operation::kUnknown;
  };

  bool Describe(const JsonArgs& args, Call* call);
  void DescribeByInputs(const JsonArgs& args, Call* call);
  uint32_t GroupOf(const std::string& key, Group group);
  void HashUnnumbered();
  void NameGroups(ProfileBuilder* builder, std::vector<std::string>* notes);
  void FindCalls();
  Operation OperationOf(const Kernel& kernel) const;
  uint32_t CallAt(int64_t launched_ns) const;
  void AddByStream(ProfileBuilder* builder, std::vector<std::string>* notes);

  std::optional<uint32_t> rank_;
  uint32_t world_size_ = 0;
  std::vector<Group> groups_;
  std::map<std::string, uint32_t> group_ids_;
  const KinetoGroups* header_groups_ = nullptr;
  std::vector<Call> calls_;         // of the host, then those that kernels describe
  std::vector<uint32_t> by_begin_;  // host calls in order of time
  std::vector<Kernel> kernels_;
  uint64_t left_out_ = 0;
};

}  // namespace flare::import
