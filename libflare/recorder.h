// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "libflare/core/event.h"
#include "libflare/core/segment_layout.h"

// The only way from a hook to shared memory.
//
// Any thread may call any function here at any time, also in a forked child and while the process
// exits; none of them throws, changes errno, or waits for another process. When the process is not
// woken, switched off, or a child, they do nothing: begin returns a token that end ignores.
// BeginCall and EndCall take no lock, allocate nothing and make no system call, except for the
// first call of a thread, which claims a slot.
namespace flare {

// Where recording goes. Lives on a page that a forked child sees as zeros, so that a child of any
// kind is switched off by itself.
struct Gate {
  std::atomic<uint32_t> armed;  // 1 = segment is valid
  uint32_t tick_source;         // TickSource
  SegmentHeader* segment;
};

extern Gate* g_gate;  // never null; points to zeros until the process wakes

// True when hooks should record. Inline: this is all that an inactive hook pays.
inline bool IsRecording() {
  const Gate* gate = g_gate;
  if (__builtin_expect(gate->armed.load(std::memory_order_acquire) == 0, 1)) return false;
  return gate->segment->enabled.load(std::memory_order_relaxed) != 0;
}

// What a hook knows about the call it wraps.
struct Call {
  EventKind kind = EventKind::kNone;
  Operation operation = Operation::kUnknown;
  DataType data_type = DataType::kUnknown;
  uint8_t flags = 0;  // EventFlags
  int32_t peer = kNoPeer;
  uint32_t name_id = 0;
  uint64_t comm = 0;
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  uint64_t launch_ticks = 0;  // 0: same as start
};

struct CallToken {
  uint64_t start_ticks = 0;  // 0: not recorded
  uint32_t depth = 0;        // index of the open call in this thread
};

// Opens a call of this thread (visible to the daemon at once). `frame` is the stack address of the
// hook (__builtin_frame_address(0)): calls left open by an exception are closed by the next one.
CallToken BeginCall(const Call& call, const void* frame);

// Closes it and writes its event. `call` may carry more than at the begin (bytes, flags, sequence).
void EndCall(const CallToken& token, const Call& call);

// Writes an event for work that no open call of this thread stood for.
void RecordEvent(const Event& event);

// Step boundary: counts the step, writes a kStep event, and looks whether a kill-switch file came.
void RecordStep();

// Id of a name in the segment; the same text gives the same id. 0 when not recording or the table
// is full (counted). Takes a process-local lock: call once per function, not per call.
uint32_t InternName(const char* text);

// Claims (or finds) the slot of a communicator. Null when full (counted) or not recording.
CommSlot* OpenCommunicator(uint64_t comm, const char* name, uint32_t group_rank,
                           uint32_t group_size);

// Why to wake. An import alone does not wake a process whose rank comes from a scheduler only: it
// may be a launcher such as torchrun, which imports the framework too and is no rank. kLoad: before
// main, when forced; the program's view of its signals is then left alone until the first record.
enum class WakeReason : uint8_t { kImport = 0, kCall = 1, kLoad = 2 };

// Makes the segment when this process is a rank and has none yet. Slow, idempotent, thread-safe.
// False when the process is not to be woken or the segment could not be made.
bool EnsureAwake(WakeReason reason = WakeReason::kImport);

// Facts for the header. Each may be called again; the last wins. Texts are cut to fit.
void SetFramework(const char* text);
void SetPython(uint32_t version_hex, uint64_t runtime_address, uint64_t main_thread_state);
void SetPartState(Part part, PartState state);
PartState GetPartState(Part part);
void CountDrop(DropReason reason);
// An exception nobody caught; type such as "ValueError".
void RecordException(const char* type, const char* text);

// Called by a library's hook when a framework shows signs of life (first communicator): lets the
// Python side attach what it had to put off. At most one listener.
void SetFrameworkListener(void (*listener)());
void NotifyFramework();

inline uint64_t NowTicks();

}  // namespace flare

#include "libflare/core/clock.h"

namespace flare {
inline uint64_t NowTicks() { return ReadTicks(static_cast<TickSource>(g_gate->tick_source)); }
}  // namespace flare
