// SPDX-License-Identifier: Apache-2.0
#include "diag/import/kineto_collectives.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "diag/import/kineto_names.h"

namespace flare::import {
namespace {

constexpr size_t kMaxGroups = 4096;
constexpr int64_t kMaxGroupSize = 1 << 24;
// Calls on several threads that may run at the same time, and be looked through for one launch.
constexpr size_t kLookBack = 64;

// FNV-1a: equal in every process, as std::hash need not be.
uint64_t Hash(std::string_view text, uint64_t hash = 0xcbf29ce484222325) {
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

uint64_t Count(std::optional<int64_t> value) {
  return value && *value > 0 ? static_cast<uint64_t>(*value) : 0;
}

// Elements of a tensor; 0 when the shape is unknown or makes no sense.
uint64_t Elements(const std::vector<int64_t>& shape) {
  if (shape.empty()) return 0;
  uint64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(elements, static_cast<uint64_t>(size), &elements))
      return 0;
  }
  return elements;
}

uint64_t Bytes(uint64_t elements, DataType type) {
  uint64_t bytes = 0;
  return __builtin_mul_overflow(elements, uint64_t{BytesOf(type)}, &bytes) ? 0 : bytes;
}

std::vector<uint32_t> Members(const std::vector<int64_t>& ranks) {
  std::vector<uint32_t> members;
  for (const int64_t rank : ranks) {
    if (rank >= 0 && rank < kMaxGroupSize) members.push_back(static_cast<uint32_t>(rank));
  }
  return members;
}

}  // namespace

KinetoGroups ReadKinetoGroups(const JsonArgs& distributed_info) {
  KinetoGroups groups;
  JsonArgs group;
  for (const std::string& object : distributed_info.Objects("pg_config")) {
    if (groups.size() >= kMaxGroups || !group.Parse(object)) continue;
    std::string name(group.String("pg_name"));
    if (name.empty() && group.Int("uid")) name = std::to_string(*group.Int("uid"));
    if (!name.empty()) groups.emplace(std::move(name), Members(group.Ints("ranks")));
  }
  return groups;
}

void KinetoCollectives::SetJob(std::optional<uint32_t> rank, uint32_t world_size) {
  rank_ = rank;
  world_size_ = world_size;
}

uint32_t KinetoCollectives::GroupOf(const std::string& key, Group group) {
  const auto known = group_ids_.find(key);
  if (known != group_ids_.end()) return known->second;
  if (groups_.size() >= kMaxGroups) return kNone;
  groups_.push_back(std::move(group));
  return group_ids_[key] = static_cast<uint32_t>(groups_.size() - 1);
}

// By the fields that newer versions write. False when they are not there.
bool KinetoCollectives::Describe(const JsonArgs& args, Call* call) {
  const std::string_view operation = args.String("Collective name");
  if (operation.empty()) return false;
  call->operation = OperationNamed(operation);
  if (operation == "wait") return true;  // for an earlier call, of which it knows nothing
  call->data_type = DataTypeNamed(args.String("dtype"));
  call->bytes = Bytes(Count(args.Int("In msg nelems")), call->data_type);
  if (const auto sequence = args.Int("Seq"); sequence && *sequence >= 0) {
    call->sequence = static_cast<uint64_t>(*sequence);
  }
  std::string name(args.String("Process Group Name"));
  if (name.empty()) {
    if (const auto id = args.Int("Process Group ID")) name = std::to_string(*id);
  }
  Group group;
  group.ranks = args.String("Process Group Ranks");
  group.members = Members(args.Ints("Process Group Ranks"));
  // The lists of large groups are shortened in the events, not in the header.
  if (group.members.empty() && header_groups_ != nullptr) {
    const auto header = header_groups_->find(name);
    if (header != header_groups_->end()) group.members = header->second;
    if (!group.members.empty()) group.ranks.clear();
    for (const uint32_t rank : group.members) group.ranks += std::to_string(rank) + ',';
  }
  group.size = static_cast<uint32_t>(
      std::clamp<int64_t>(args.Int("Group size").value_or(0), 0, kMaxGroupSize));
  if (group.size == 0) group.size = static_cast<uint32_t>(group.members.size());
  const std::string_view description = args.String("Process Group Description");
  if (name.empty() && group.ranks.empty()) return true;  // a collective of an unknown group
  group.name = description.empty() || description == "undefined" ? "process group " + name
                                                                 : std::string(description);
  std::string key = name + '|' + group.ranks + '|' + std::to_string(group.size);
  if (group.members.empty()) {
    key += '|' + std::to_string(args.Int("Global rank start").value_or(-1)) + '|' +
           std::to_string(args.Int("Global rank stride").value_or(-1));
    group.ranks = key;
  }
  call->group = GroupOf(key, std::move(group));
  return true;
}

// Before that the inputs of the call were recorded as of any operator: tensors first where there
// are any, then sequence number, address of the process group, rank in it, and at the end its size.
void KinetoCollectives::DescribeByInputs(const JsonArgs& args, Call* call) {
  const std::vector<std::string_view> inputs = args.Strings("Concrete Inputs");
  const std::vector<std::vector<int64_t>> shapes = args.Dims("Input Dims");
  if (!shapes.empty()) call->bytes = Elements(shapes[0]);  // elements, until a mark tells the type
  if (inputs.size() < 7 || !inputs[0].empty()) return;
  const auto number = [](std::string_view text) -> std::optional<uint64_t> {
    if (text.empty() || text.size() > 19) return std::nullopt;
    uint64_t value = 0;
    for (char c : text) {
      if (c < '0' || c > '9') return std::nullopt;
      value = value * 10 + static_cast<uint64_t>(c - '0');
    }
    return value;
  };
  const auto sequence = number(inputs[1]), address = number(inputs[2]);
  const auto size = number(inputs.back());
  // Waiting for a call is written alike, in a group of one.
  if (!sequence || !address || !size || *size < 2 || *size > kMaxGroupSize) return;
  call->sequence = *sequence;
  Group group;
  group.by_address = true;
  group.size = static_cast<uint32_t>(*size);
  call->group = GroupOf("address|" + std::to_string(*address), std::move(group));
}

void KinetoCollectives::AddCall(int64_t begin_ns, int64_t duration_ns, uint64_t external_id,
                                const JsonArgs* args) {
  if (calls_.size() >= kMaxCalls) {
    ++left_out_;
    return;
  }
  Call call;
  call.begin_ns = begin_ns;
  call.end_ns = begin_ns + duration_ns;
  call.external_id = external_id;
  if (args != nullptr && !Describe(*args, &call)) DescribeByInputs(*args, &call);
  by_begin_.push_back(static_cast<uint32_t>(calls_.size()));
  calls_.push_back(call);
}

void KinetoCollectives::AddMark(std::string_view name, int64_t begin_ns, int64_t duration_ns,
                                const JsonArgs* args) {
  const Operation operation = OperationNamed(name);
  DataType type = DataType::kUnknown;
  uint64_t elements = 0;
  if (args != nullptr) {
    const std::vector<std::string_view> types = args->Strings("Input type");
    const std::vector<std::vector<int64_t>> shapes = args->Dims("Input Dims");
    if (!types.empty()) type = DataTypeNamed(types[0]);
    if (!shapes.empty()) elements = Elements(shapes[0]);
  }
  if (name.starts_with("gloo:")) {
    if (kernels_.size() >= kMaxCalls) return;
    Kernel kernel;
    kernel.begin_ns = begin_ns;
    kernel.duration_ns = duration_ns;
    kernel.name_hash = Hash(name);
    kernel.operation = operation;
    kernel.stream = UINT64_MAX;
    kernels_.push_back(kernel);
    return;
  }
  // The call around it was written just before it; on other threads others may run meanwhile.
  const size_t stop = by_begin_.size() - std::min(by_begin_.size(), kLookBack);
  for (size_t i = by_begin_.size(); i-- > stop;) {
    Call& call = calls_[by_begin_[i]];
    if (call.begin_ns > begin_ns || call.end_ns < begin_ns + duration_ns) continue;
    if (call.operation != Operation::kUnknown) return;
    call.operation = operation;
    call.data_type = type;
    call.bytes = Bytes(elements, type);
    return;
  }
}

uint32_t KinetoCollectives::AddKernel(std::string_view name, const DeviceActivity& activity,
                                      uint64_t external_id, const JsonArgs& args) {
  if (kernels_.size() >= kMaxCalls) {
    ++left_out_;
    return 0;
  }
  Kernel kernel;
  kernel.begin_ns = activity.begin_ns;
  kernel.duration_ns = activity.duration_ns;
  kernel.correlation = activity.correlation;
  kernel.external_id = external_id;
  kernel.device = activity.device;
  kernel.stream = activity.stream;
  kernel.name_hash = Hash(name);
  kernel.operation = OperationOfKernel(name);
  Call call;
  if (calls_.size() < kMaxCalls && Describe(args, &call)) {
    call.external_id = external_id;
    kernel.call = static_cast<uint32_t>(calls_.size());
    calls_.push_back(call);
  }
  kernels_.push_back(kernel);
  return static_cast<uint32_t>(kernels_.size());
}

// As the call says it, for one kernel serves several operations ("SendRecv", "Generic").
Operation KinetoCollectives::OperationOf(const Kernel& kernel) const {
  if (kernel.call != kNone && calls_[kernel.call].operation != Operation::kUnknown) {
    return calls_[kernel.call].operation;
  }
  return kernel.operation;
}

// The call that was running at this time; of several the one that began last.
uint32_t KinetoCollectives::CallAt(int64_t launched_ns) const {
  auto after =
      std::upper_bound(by_begin_.begin(), by_begin_.end(), launched_ns,
                       [&](int64_t t, uint32_t call) { return t < calls_[call].begin_ns; });
  for (size_t i = 0; i < kLookBack && after != by_begin_.begin(); ++i) {
    --after;
    if (calls_[*after].end_ns >= launched_ns) return *after;
  }
  return kNone;
}

void KinetoCollectives::FindCalls() {
  std::sort(by_begin_.begin(), by_begin_.end(),
            [&](uint32_t a, uint32_t b) { return calls_[a].begin_ns < calls_[b].begin_ns; });
  std::unordered_map<uint64_t, uint32_t> by_external_id;
  for (const uint32_t call : by_begin_) {
    if (calls_[call].external_id != 0) by_external_id.emplace(calls_[call].external_id, call);
  }
  for (Kernel& kernel : kernels_) {
    // In older versions a kernel's "External id" is only its correlation once more.
    const bool told = kernel.external_id != 0 && kernel.external_id != kernel.correlation;
    uint32_t host = kNone;
    if (told) {
      const auto found = by_external_id.find(kernel.external_id);
      if (found != by_external_id.end()) host = found->second;
    }
    if (host == kNone && kernel.launched_ns != kUnknownTime) host = CallAt(kernel.launched_ns);
    if (host == kNone) continue;
    // What the kernel itself says goes first; the call may know the sequence number beside it.
    if (kernel.call == kNone || calls_[kernel.call].group == calls_[host].group) kernel.call = host;
  }
}

// Calls without sequence numbers are counted from the beginning of the trace, which need not be the
// same call on all ranks. So what was called becomes part of the communicator's identity.
void KinetoCollectives::HashUnnumbered() {
  for (const Kernel& kernel : kernels_) {
    if (kernel.call == kNone || calls_[kernel.call].group == kNone) continue;
    const Call& call = calls_[kernel.call];
    if (call.sequence != kNoSequence) continue;
    Group& group = groups_[call.group];
    const std::string what = std::to_string(static_cast<int>(OperationOf(kernel))) + '|' +
                             std::to_string(call.bytes) + '|';
    group.unnumbered = Hash(what, group.unnumbered == 0 ? Hash("") : group.unnumbered);
  }
}

void KinetoCollectives::NameGroups(ProfileBuilder* builder, std::vector<std::string>* notes) {
  uint32_t of_world = 0;
  size_t unknown = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    uint32_t group_rank = rank_.value_or(0);
    if (group.by_address) {
      if (group.size == world_size_ && world_size_ > 0) {
        // Every rank is a member, and makes such groups in the same order.
        group.name = of_world == 0 ? "default_pg" : "world group " + std::to_string(of_world);
        group.id =
            CommId(Hash("world|" + std::to_string(of_world++), Hash(std::to_string(group.size))));
      } else {
        // Its members are not told: equal to no other rank's.
        group.name = "group of " + std::to_string(group.size);
        group.id = CommId(
            Hash("local|" + std::to_string(rank_.value_or(UINT32_MAX)) + '|' + std::to_string(i)));
        ++unknown;
      }
    } else {
      const auto key = std::find_if(group_ids_.begin(), group_ids_.end(),
                                    [&](const auto& entry) { return entry.second == i; });
      group.id = CommId(Hash(key->first));
      if (group.unnumbered != 0) {
        group.id = CommId(Hash(std::to_string(group.unnumbered), group.id.value));
      }
      const auto at = std::find(group.members.begin(), group.members.end(), group_rank);
      if (at != group.members.end()) {
        group_rank = static_cast<uint32_t>(at - group.members.begin());
      }
    }
    builder->AddCommunicator(group.id, group.name, group_rank, group.size);
  }
  if (unknown > 0) {
    notes->push_back("the trace does not tell the members of " + std::to_string(unknown) +
                     " process groups: their collectives are not joined with those of other ranks");
  }
}

// Kernels without any call: numbered by stream.
void KinetoCollectives::AddByStream(ProfileBuilder* builder, std::vector<std::string>* notes) {
  std::map<std::pair<uint32_t, uint64_t>, std::vector<const Kernel*>> streams;
  for (const Kernel& kernel : kernels_) {
    if (kernel.call != kNone && calls_[kernel.call].group != kNone) continue;
    if (OperationOf(kernel) == Operation::kUnknown) continue;
    streams[{kernel.device, kernel.stream}].push_back(&kernel);
  }
  // Streams in the order in which they were first used: their numbers differ from rank to rank.
  std::vector<std::vector<const Kernel*>> ordered;
  for (auto& [key, list] : streams) ordered.push_back(std::move(list));
  std::sort(ordered.begin(), ordered.end(),
            [](const auto& a, const auto& b) { return a.front()->begin_ns < b.front()->begin_ns; });
  std::map<uint64_t, uint32_t> seen;
  for (const auto& list : ordered) {
    uint64_t sequence_hash = Hash(std::to_string(world_size_));
    for (const Kernel* kernel : list) {
      sequence_hash = Hash({reinterpret_cast<const char*>(&kernel->name_hash), 8}, sequence_hash);
    }
    const uint32_t again = seen[sequence_hash]++;
    const CommId id(Hash(std::to_string(again), sequence_hash));
    builder->AddCommunicator(id, "stream " + std::to_string(seen.size()), rank_.value_or(0),
                             world_size_);
    uint64_t sequence = 0;
    for (const Kernel* kernel : list) {
      Collective collective;
      collective.communicator = id;
      collective.sequence = sequence++;
      collective.operation = OperationOf(*kernel);
      if (kernel->call != kNone) {
        const Call& call = calls_[kernel->call];
        collective.data_type = call.data_type;
        collective.bytes = call.data_type == DataType::kUnknown ? 0 : call.bytes;
      }
      collective.begin_ns = kernel->begin_ns;
      collective.duration_ns = kernel->duration_ns;
      collective.launched_ns = kernel->launched_ns;
      builder->AddCollective(collective);
    }
  }
  if (!ordered.empty()) {
    notes->push_back(
        "the trace names no process groups for some collectives: they are numbered by stream, and "
        "meet those of ranks that ran the same sequence");
  }
}

void KinetoCollectives::Finish(ProfileBuilder* builder, std::vector<std::string>* notes) {
  const std::vector<int64_t> launches = builder->CommunicationLaunches(kernels_.size());
  for (size_t i = 0; i < kernels_.size(); ++i) kernels_[i].launched_ns = launches[i];
  FindCalls();
  std::sort(kernels_.begin(), kernels_.end(),
            [](const Kernel& a, const Kernel& b) { return a.begin_ns < b.begin_ns; });
  HashUnnumbered();
  NameGroups(builder, notes);
  bool numbered = false;
  for (const Kernel& kernel : kernels_) {
    if (kernel.call == kNone) continue;
    Call& call = calls_[kernel.call];
    if (call.group == kNone) continue;
    Group& group = groups_[call.group];
    if (call.sequence == kNoSequence) {
      call.sequence = group.calls++;
      numbered = true;
    }
    call.used = true;
    Collective collective;
    collective.communicator = group.id;
    collective.sequence = call.sequence;
    collective.operation = OperationOf(kernel);
    collective.data_type = call.data_type;
    collective.bytes = call.data_type == DataType::kUnknown ? 0 : call.bytes;
    collective.begin_ns = kernel.begin_ns;
    collective.duration_ns = kernel.duration_ns;
    collective.launched_ns = kernel.launched_ns;
    builder->AddCollective(collective);
  }
  if (numbered) {
    notes->push_back(
        "the trace has no sequence numbers of collectives: they are counted from its beginning, "
        "and "
        "compared with ranks that made the same calls");
  }
  AddByStream(builder, notes);
  if (kernels_.empty()) {
    // Without a device the calls at least say what was called.
    for (Call& call : calls_) {
      if (call.group == kNone || call.operation == Operation::kUnknown) continue;
      Collective collective;
      collective.communicator = groups_[call.group].id;
      collective.sequence =
          call.sequence == kNoSequence ? groups_[call.group].calls++ : call.sequence;
      collective.operation = call.operation;
      collective.data_type = call.data_type;
      collective.bytes = call.bytes;
      collective.begin_ns = collective.launched_ns = call.begin_ns;
      collective.observed = false;
      builder->AddCollective(collective);
    }
  }
  if (left_out_ > 0) {
    notes->push_back(std::to_string(left_out_) + " collectives beyond the first million left out");
  }
}

}  // namespace flare::import
