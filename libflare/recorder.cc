// SPDX-License-Identifier: Apache-2.0
#include "libflare/recorder.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libflare/bus_guard.h"
#include "libflare/core/event_ring.h"
#include "libflare/process_facts.h"
#include "libflare/recorder_state.h"

// The hot path: open calls, events, steps. Names, communicators and facts: recorder_tables.cc.
namespace flare {

constinit RecorderState g_state;

namespace {

constexpr uint64_t kKillSwitchPeriodNs = 200'000'000;
constexpr uint32_t kClaimRetryPeriod = 1024;  // calls of a thread without a slot

// What a thread keeps to itself. Part of the 256 bytes of thread-local storage we allow ourselves.
struct ThreadState {
  EventRingWriter ring;
  ThreadSlot* slot = nullptr;
  uint32_t tid = 0;
  uint32_t depth = 0;    // open calls of this thread
  uint32_t refused = 0;  // calls since the last try to get a slot
};
constinit thread_local ThreadState t_thread;

bool IsDeadThread(uint32_t tid) {
  return syscall(SYS_tgkill, CurrentPid(), tid, 0) != 0 && errno == ESRCH;
}

// The first free slot, else the slot of a thread that is gone.
ThreadSlot* FindSlot(uint32_t tid) {
  const uint32_t count = g_state.segment.thread_count;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t expected = 0;
    if (g_state.threads[i].tid.compare_exchange_strong(expected, tid)) return &g_state.threads[i];
    if (expected == tid) return &g_state.threads[i];  // left by a dead thread with our id
  }
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t holder = g_state.threads[i].tid.load(std::memory_order_relaxed);
    if (IsDeadThread(holder) && g_state.threads[i].tid.compare_exchange_strong(holder, tid)) {
      return &g_state.threads[i];
    }
  }
  return nullptr;
}

__attribute__((noinline)) bool ClaimSlot(ThreadState& thread) {
  ErrnoKeeper keep;
  if (thread.refused % kClaimRetryPeriod != 0) {
    ++thread.refused;
    CountDrop(DropReason::kNoThreadSlot);
    return false;
  }
  EnsureBusGuard();
  const uint32_t tid = static_cast<uint32_t>(CurrentTid());
  ThreadSlot* slot = FindSlot(tid);
  if (slot == nullptr) {
    ++thread.refused;
    CountDrop(DropReason::kNoThreadSlot);
    return false;
  }
  slot->depth.store(0, std::memory_order_relaxed);
  prctl(PR_GET_NAME, slot->thread_name);
  Event* ring = g_state.rings + (slot - g_state.threads) * uint64_t{g_state.segment.ring_events};
#if defined(MADV_POPULATE_WRITE)
  // Takes the page faults here instead of in the calls to come; older kernels decline.
  const uint64_t ring_bytes = sizeof(Event) * uint64_t{g_state.segment.ring_events};
  if (ring_bytes % 4096 == 0) madvise(ring, ring_bytes, MADV_POPULATE_WRITE);
#endif
  thread.ring = EventRingWriter(slot, ring, g_state.segment.ring_events);
  thread.tid = tid;
  thread.depth = 0;
  thread.slot = slot;
  return true;
}

inline bool HasSlot(ThreadState& thread) {
  if (__builtin_expect(thread.slot != nullptr, 1)) return true;
  return ClaimSlot(thread);
}

inline void SetDepth(ThreadState& thread, uint32_t depth) {
  thread.depth = depth;
  thread.slot->depth.store(depth, std::memory_order_release);
}

// Calls that an exception left open lie at or below the stack address of a caller that runs now.
inline void CloseStaleCalls(ThreadState& thread, uint64_t frame) {
  uint32_t depth = thread.depth;
  while (depth > 0) {
    const uint32_t top = (depth <= kMaxOpenCalls ? depth : kMaxOpenCalls) - 1;
    if (thread.slot->open[top].frame > frame) break;
    depth = top;
  }
  thread.depth = depth;
}

inline void WriteOpenCall(OpenCall* open, const Call& call, uint64_t start, uint64_t frame) {
  const uint32_t version = open->version.load(std::memory_order_relaxed) | 1;
  open->version.store(version, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  open->kind = call.kind;
  open->operation = call.operation;
  open->data_type = call.data_type;
  open->flags = call.flags;
  open->start_ticks = start;
  open->comm = call.comm;
  open->sequence = call.sequence;
  open->bytes = call.bytes;
  open->peer = call.peer;
  open->name_id = call.name_id;
  open->frame = frame;
  open->version.store(version + 1, std::memory_order_release);
}

inline void WriteEvent(ThreadState& thread, const Event& event) {
  thread.slot->last_event_ticks.store(event.end_ticks, std::memory_order_relaxed);
  thread.ring.Write(event);
}

void CheckKillSwitch() {
  static constinit std::atomic<uint64_t> next_check_ns{0};
  const uint64_t now_ns = MonotonicNs();
  uint64_t due_ns = next_check_ns.load(std::memory_order_relaxed);
  if (now_ns < due_ns) return;
  if (!next_check_ns.compare_exchange_strong(due_ns, now_ns + kKillSwitchPeriodNs)) return;
  ErrnoKeeper keep;
  if (KillSwitchPresent()) SwitchOff();
}

}  // namespace

CallToken BeginCall(const Call& call, const void* frame) {
  if (!IsRecording()) return {};
  ThreadState& thread = t_thread;
  if (!HasSlot(thread)) return {};
  const uint64_t address = reinterpret_cast<uintptr_t>(frame);
  CloseStaleCalls(thread, address);
  const CallToken token{NowTicks(), thread.depth};
  if (token.depth < kMaxOpenCalls) {
    WriteOpenCall(&thread.slot->open[token.depth], call, token.start_ticks, address);
  }
  SetDepth(thread, token.depth + 1);
  return token;
}

void EndCall(const CallToken& token, const Call& call) {
  if (token.start_ticks == 0 || !IsRecording()) return;
  ThreadState& thread = t_thread;
  if (thread.slot == nullptr) return;
  const uint64_t now = NowTicks();
  // A call closed as stale is not to close the calls that took its place.
  if (token.depth < thread.depth) SetDepth(thread, token.depth);
  WriteEvent(thread, Event{.launch_ticks = call.launch_ticks,
                           .start_ticks = token.start_ticks,
                           .end_ticks = now,
                           .comm = call.comm,
                           .sequence = call.sequence,
                           .bytes = call.bytes,
                           .peer = call.peer,
                           .name_id = call.name_id,
                           .kind = call.kind,
                           .operation = call.operation,
                           .data_type = call.data_type,
                           .flags = call.flags,
                           .thread = thread.tid});
}

void RecordEvent(const Event& event) {
  if (!IsRecording()) return;
  ThreadState& thread = t_thread;
  if (!HasSlot(thread)) return;
  Event copy = event;
  copy.thread = thread.tid;
  WriteEvent(thread, copy);
}

void RecordStep() {
  if (!IsRecording()) return;
  EnsureBusGuard();
  SegmentHeader* header = Header();
  const uint64_t now = NowTicks();
  const uint64_t step = header->step.fetch_add(1, std::memory_order_relaxed);
  header->step_ticks.store(now, std::memory_order_relaxed);
  Event event = {};
  event.start_ticks = now;
  event.end_ticks = now;
  event.sequence = step;
  event.peer = kNoPeer;
  event.kind = EventKind::kStep;
  RecordEvent(event);
  CheckKillSwitch();
}

}  // namespace flare
