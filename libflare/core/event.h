// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The record that a hook leaves in shared memory for each finished call.
//
// Its layout is a contract between libflare and the daemon, versioned by kSegmentVersion
// (segment.h). All integers are native-endian; times are raw clock ticks (clock.h) that only the
// daemon converts to nanoseconds. One event is one cache line.
namespace flare {

// What an event, or a call that is still open, is about.
enum class EventKind : uint8_t {
  kNone = 0,
  kCollective = 1,  // one collective of a communicator, launch to completion
  kSend = 2,        // point-to-point; start to end is the wait of the caller for completion
  kRecv = 3,
  kCommInit = 4,   // creation of a communicator, blocks until all members came
  kDataLoad = 5,   // the training loop waits for the next batch
  kBackward = 6,   // backward pass, as called from Python
  kOptimizer = 7,  // optimiser step
  kCheckpoint = 8, // saving state
  kGc = 9,         // Python garbage collection; sequence = generation
  kUserCall = 10,  // a function named in FLARE_PYTHON_API; name_id says which
  kStep = 11,      // step boundary: start == end; sequence = the step that has just ended
  kSynchronize = 12,
};
inline constexpr uint8_t kEventKindCount = 13;

// Collective operations, in the words of the field.
enum class Operation : uint8_t {
  kUnknown = 0,
  kAllReduce = 1,
  kBroadcast = 2,
  kReduce = 3,
  kAllGather = 4,
  kReduceScatter = 5,
  kGather = 6,
  kScatter = 7,
  kAllToAll = 8,
  kBarrier = 9,
  kSend = 10,
  kRecv = 11,
};
inline constexpr uint8_t kOperationCount = 12;

// Element types. The values are FLARE's own; hooks translate.
enum class DataType : uint8_t {
  kUnknown = 0,
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kComplex64 = 9,
  kComplex128 = 10,
  kBool = 11,
  kBfloat16 = 12,
  kFloat8 = 13,
};
inline constexpr uint8_t kDataTypeCount = 14;

enum EventFlags : uint8_t {
  kEventFailed = 1 << 0,        // the call ended with an error
  kEventBytesUnknown = 1 << 1,  // bytes and data type could not be read
  kEventUnequalBytes = 1 << 2,  // ranks may rightly pass different sizes (all-to-all-v, gather-v)
};

inline constexpr int32_t kNoPeer = -1;

struct alignas(64) Event {
  uint64_t launch_ticks;  // when the program asked for it; 0 when the same as start
  uint64_t start_ticks;   // when work began
  uint64_t end_ticks;     // when it was done
  uint64_t comm;          // CommId, 0 when none
  uint64_t sequence;      // in the communicator (collectives), else see EventKind
  uint64_t bytes;         // payload of the caller's input buffer
  int32_t peer;           // root of a rooted collective, peer of send and recv (rank in the group)
  uint32_t name_id;       // interned name (segment.h), 0 when none
  EventKind kind;
  Operation operation;
  DataType data_type;
  uint8_t flags;     // EventFlags
  uint32_t thread;   // kernel thread id of the caller
};
static_assert(sizeof(Event) == 64, "the event layout is a contract");

}  // namespace flare
