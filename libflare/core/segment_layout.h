// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "libflare/core/event.h"

// The bytes of a segment: the file on tmpfs by which a training process and the daemon of its node
// share memory, and which stays readable after the process is stopped or dead (the black box).
//
//   offset 0        SegmentHeader                      one page
//   names_offset    NameSlot   [kMaxNames]             interned names, id = index, 0 unused
//   comms_offset    CommSlot   [kMaxComms]             communicators this process belongs to
//   threads_offset  ThreadSlot [thread_count]          open calls and ring positions, a slot per thread
//   rings_offset    Event      [thread_count][ring_events]
//
// The process writes everything except the fields marked "daemon writes". The layout is a contract:
// any change raises kSegmentVersion. Whoever reads a segment must treat its content as hostile:
// copy a field once, check it, then use the copy (segment_reader.h does this for the daemon).
namespace flare {

inline constexpr uint64_t kSegmentMagic = 0x4745534552414c46ull;  // "FLARESEG", little-endian
inline constexpr uint32_t kSegmentVersion = 1;

inline constexpr uint32_t kMaxNames = 1024;
inline constexpr uint32_t kNameBytes = 64;  // with the terminating zero
inline constexpr uint32_t kMaxComms = 64;
inline constexpr uint32_t kRecentCollectives = 64;  // per communicator; a power of two
inline constexpr uint32_t kMaxOpenCalls = 8;        // nesting depth that is kept per thread
inline constexpr uint32_t kMaxThreadSlots = 256;    // upper bound a reader accepts
inline constexpr uint32_t kMaxRingEvents = 1u << 20;

// Why an event or a part of the sensor was lost. Counted, never silent.
enum class DropReason : uint32_t {
  kRingFull = 0,     // the daemon did not drain in time
  kNoThreadSlot = 1, // more threads call hooks than the segment has slots
  kNoCommSlot = 2,
  kNameTable = 3,
  kWorkTable = 4,    // too many collectives in flight to follow
  kCount = 8,        // size of the array; the rest is reserved
};

// Parts of the sensor and how they fared; `flare doctor` puts them in words.
enum class Part : uint32_t { kGloo = 0, kPython = 1, kTensorLayout = 2, kLock = 3, kCount = 16 };
enum class PartState : uint32_t {
  kIdle = 0,          // not needed so far
  kActive = 1,
  kMissingSymbol = 2, // the library lacks a function we need
  kUnsupported = 3,   // a version we do not know
  kFailed = 4,
};

enum class ProcessPhase : uint32_t {
  kRunning = 1,
  kExited = 2,   // exit() or _exit() was reached; exit_code is valid
  kReplaced = 3, // exec replaced the program
};

struct NameSlot {
  char text[kNameBytes];
};

// What is kept of a launched collective to compare ranks with: 32 bytes.
struct CollectiveSignature {
  uint64_t sequence;
  uint64_t bytes;
  uint64_t launch_ticks;
  int32_t peer;
  Operation operation;
  DataType data_type;
  uint8_t flags;  // EventFlags
  uint8_t reserved;
};
static_assert(sizeof(CollectiveSignature) == 32);

// One communicator of this process. `version` is odd while the slot is being (re)filled.
struct alignas(64) CommSlot {
  std::atomic<uint32_t> version;
  uint32_t group_rank;
  uint32_t group_size;
  uint32_t name_id;
  std::atomic<uint64_t> comm;       // CommId; 0 = free slot
  std::atomic<uint64_t> launched;   // collectives asked for = next sequence number
  std::atomic<uint64_t> completed;  // collectives done (they may finish out of order)
  std::atomic<uint64_t> last_end_ticks;
  std::atomic<uint64_t> p2p_launched;
  std::atomic<uint64_t> p2p_completed;
  // Last launched collectives: the one with sequence s is at index s % kRecentCollectives.
  CollectiveSignature recent[kRecentCollectives];
};

// A call that has begun and not ended.
struct OpenCall {
  std::atomic<uint32_t> version;  // odd while being written
  EventKind kind;
  Operation operation;
  DataType data_type;
  uint8_t flags;
  uint64_t start_ticks;
  uint64_t comm;
  uint64_t sequence;
  uint64_t bytes;
  int32_t peer;
  uint32_t name_id;
  uint64_t frame;  // stack address of the hook; entries below a live caller are stale
  uint64_t reserved;
};
static_assert(sizeof(OpenCall) == 64);

struct alignas(64) ThreadSlot {
  // 0 = free. Set by the owner when it claims the slot; the slot of a dead thread is claimed again.
  std::atomic<uint32_t> tid;
  std::atomic<uint32_t> depth;  // open calls in use; may exceed kMaxOpenCalls (the rest is not kept)
  std::atomic<uint64_t> dropped;
  std::atomic<uint64_t> last_event_ticks;
  char thread_name[16];
  alignas(64) std::atomic<uint64_t> head;  // events written, ever; process writes
  alignas(64) std::atomic<uint64_t> tail;  // events read, ever; daemon writes
  alignas(64) OpenCall open[kMaxOpenCalls];
};

struct alignas(4096) SegmentHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;
  uint64_t total_bytes;
  uint64_t names_offset, comms_offset, threads_offset, rings_offset;
  uint32_t thread_count;
  uint32_t ring_events;  // a power of two
  std::atomic<uint32_t> ready;  // 1 once everything below up to `job` is valid

  uint32_t tick_source;  // TickSource
  // The three clocks read together when the segment was made, to convert ticks.
  uint64_t anchor_ticks, anchor_monotonic_ns, anchor_realtime_ns;

  uint64_t source_id;  // SourceId
  int32_t pid;         // in the process's own PID namespace
  int32_t main_tid;
  uint64_t process_start_clock_ticks;  // field 22 of /proc/self/stat: tells a reused pid
  uint64_t pid_namespace;              // inode of /proc/self/ns/pid, 0 unknown
  uint32_t rank, world_size, local_rank, attempt;
  char job[64];       // job identity
  char job_name[64];  // for people; may equal job
  char node[64];      // host name
  char library_version[32];

  // Facts that become known later; `facts_version` is odd while they change.
  std::atomic<uint32_t> facts_version;
  uint32_t python_version_hex;      // PY_VERSION_HEX, 0 = no Python seen
  uint64_t python_runtime_address;  // &_PyRuntime, 0 unknown
  uint64_t python_main_thread_state;  // PyThreadState* of the main thread, 0 unknown
  char framework[64];               // such as "torch 2.13.0+cpu"
  std::atomic<uint32_t> part_state[static_cast<size_t>(Part::kCount)];  // PartState
  std::atomic<uint64_t> drops[static_cast<size_t>(DropReason::kCount)];
  std::atomic<uint32_t> name_count;

  std::atomic<uint64_t> step;        // steps completed so far
  std::atomic<uint64_t> step_ticks;  // when the last one ended

  std::atomic<uint32_t> phase;  // ProcessPhase
  std::atomic<int32_t> exit_code;
  std::atomic<uint32_t> exception_version;  // odd while written; 0 = no uncaught exception
  char exception_type[64];
  char exception_text[192];

  // Daemon writes: 0 makes every hook a plain forward from the next call on.
  alignas(64) std::atomic<uint32_t> enabled;
};
static_assert(sizeof(SegmentHeader) == 4096);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

constexpr uint64_t AlignUp(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

struct SegmentGeometry {
  uint64_t names, comms, threads, rings, total;
};

constexpr SegmentGeometry ComputeGeometry(uint32_t thread_count, uint32_t ring_events) {
  SegmentGeometry g{};
  g.names = sizeof(SegmentHeader);
  g.comms = AlignUp(g.names + sizeof(NameSlot) * kMaxNames, 64);
  g.threads = AlignUp(g.comms + sizeof(CommSlot) * kMaxComms, 64);
  g.rings = AlignUp(g.threads + sizeof(ThreadSlot) * thread_count, 4096);
  g.total = g.rings + sizeof(Event) * uint64_t{thread_count} * ring_events;
  return g;
}

}  // namespace flare
