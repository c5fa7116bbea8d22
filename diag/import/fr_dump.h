// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diag/import/value.h"
#include "libflare/core/event.h"
#include "libflare/core/status.h"

// A dump of the PyTorch Flight Recorder taken apart, whatever its version (2.0 to 2.10) and packing
// (pickle or JSON). One dump is one process: its process groups and its last calls, oldest first.
//
// Numbers are as the dump has them: collectives of a group are counted from 1, sends and receives
// apart from them and differently on each member.
namespace flare::import {

enum class FrState : uint8_t {
  kScheduled,  // called; whether the device has begun is known only where others have begun
  kStarted,
  kCompleted,
};

struct FrEntry {
  size_t group = 0;  // index in FrDump::groups
  uint64_t record = 0;
  std::string_view name;  // "all_reduce", without the backend
  Operation operation = Operation::kUnknown;
  DataType data_type = DataType::kUnknown;
  uint64_t bytes = 0;  // of all input tensors; 0 unknown
  bool unequal_bytes_allowed = false;
  bool point_to_point = false;
  std::optional<uint32_t> self, peer;  // ranks in the group, of sends and receives
  uint64_t sequence = 0;               // of collectives in the group; for sends those before it
  FrState state = FrState::kScheduled;
  bool retired = false;  // its watchdog has let go of it
  uint64_t created_unix_ns = 0, started_unix_ns = 0, completed_unix_ns = 0;
  Value frames;
};

// What the group counts on this process. Counts of collectives or of sends and receives, whichever
// came last: the dump does not say.
struct FrStatus {
  int64_t enqueued = -1, started = -1, completed = -1;
};

struct FrGroup {
  std::string name;             // equal on all members; empty in dumps that have only local ids
  std::string description;      // "default_pg", "TENSOR_MODEL_PARALLEL_GROUP"; may be empty
  std::vector<uint32_t> ranks;  // of the job, by their place in the group; empty: not told
  std::optional<int64_t> local_id;
  std::optional<FrStatus> status;
};

struct FrDump {
  std::string version;
  std::string library;           // version of NCCL; may be empty
  std::optional<uint32_t> rank;  // when the dump says it itself
  std::vector<FrGroup> groups;
  std::vector<FrEntry> entries;
  uint64_t left_out = 0;           // entries without what an entry must have
  bool statuses_by_order = false;  // matched with groups by their order (see below)
};

// Newer dumps count the status of each group under a number of the process, and name groups by a
// number of the job. An entry tells which belong together. Groups without entries are matched by
// order, as both numbers count creations, but only if no entry speaks against it.
Result<FrDump> ParseFrDump(const Value& root);

}  // namespace flare::import
