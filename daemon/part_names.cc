// SPDX-License-Identifier: Apache-2.0
#include "daemon/part_names.h"

namespace flare::daemon {
namespace {

struct PartName {
  Part part;
  const char* name;
};
constexpr PartName kParts[] = {{Part::kGloo, "gloo"},
                               {Part::kPython, "python"},
                               {Part::kTensorLayout, "tensor_layout"},
                               {Part::kLock, "lock"}};

const char* PartStateName(uint32_t state) {
  switch (static_cast<PartState>(state)) {
    case PartState::kIdle:
      return "idle";
    case PartState::kActive:
      return "active";
    case PartState::kMissingSymbol:
      return "missing_symbol";
    case PartState::kUnsupported:
      return "unsupported";
    case PartState::kFailed:
      return "failed";
  }
  return "unknown";
}

}  // namespace

const char* DropReasonName(DropReason reason) {
  switch (reason) {
    case DropReason::kRingFull:
      return "ring_full";
    case DropReason::kNoThreadSlot:
      return "no_thread_slot";
    case DropReason::kNoCommSlot:
      return "no_communicator_slot";
    case DropReason::kNameTable:
      return "name_table_full";
    case DropReason::kWorkTable:
      return "work_table_full";
    default:
      return "unknown";
  }
}

std::string PythonVersionText(uint32_t hex) {
  if (hex == 0) return {};
  return std::to_string(hex >> 24) + "." + std::to_string(hex >> 16 & 0xff) + "." +
         std::to_string(hex >> 8 & 0xff);
}

void AddParts(const SegmentFacts& facts, google::protobuf::RepeatedPtrField<v1::PartStatus>* out) {
  for (const PartName& part : kParts) {
    const uint32_t state = facts.part_state[static_cast<size_t>(part.part)];
    if (state == static_cast<uint32_t>(PartState::kIdle)) continue;
    v1::PartStatus* status = out->Add();
    status->set_part(part.name);
    status->set_state(PartStateName(state));
  }
  if (!facts.enabled) {
    v1::PartStatus* status = out->Add();
    status->set_part("recording");
    status->set_state("off");
  }
}

}  // namespace flare::daemon
