// SPDX-License-Identifier: Apache-2.0
#include "libflare/hooks/gloo_launch.h"

#include "libflare/hooks/gloo_group.h"
#include "libflare/hooks/real.h"
#include "libflare/hooks/work_table.h"

namespace flare {
namespace {

// How far below a blocking call its helpers lie on the stack, at most.
constexpr uint64_t kHelperStackBytes = 4096;

struct Launch {
  const void* group = nullptr;   // null: none under way
  const void* real = nullptr;    // what the launch forwards to
  const void* helper = nullptr;  // what its last helper forwards to: helpers have helpers
  uint64_t frame = 0;
  uint64_t bytes = 0;
  uint64_t launch_ticks = 0;
  uint64_t start_ticks = 0;  // of the open call of a blocking launch
  int32_t peer = kNoPeer;
  uint32_t tag = 0;   // last one drawn by this thread
  uint32_t tags = 0;  // drawn in this launch
  uint32_t depth = 0;
  Operation operation = Operation::kUnknown;
  DataType data_type = DataType::kUnknown;
  uint8_t flags = 0;
  LaunchStyle style = LaunchStyle::kQueued;
};
constinit thread_local Launch t_launch;
constinit thread_local bool t_execution_failed = false;

constinit WorkTable g_works;

Call CallOf(const Launch& launch, uint64_t comm) {
  Call call;
  call.kind = EventKind::kCollective;
  call.operation = launch.operation;
  call.data_type = launch.data_type;
  call.flags = launch.flags;
  call.peer = launch.peer;
  call.comm = comm;
  call.sequence = launch.tag;
  call.bytes = launch.bytes;
  call.launch_ticks = launch.launch_ticks;
  return call;
}

void RaiseTo(std::atomic<uint64_t>* value, uint64_t least) {
  uint64_t now = value->load(std::memory_order_relaxed);
  while (now < least && !value->compare_exchange_weak(now, least, std::memory_order_release)) {
  }
}

// Shows the launch in the communicator's slot. A reader trusts an entry whose sequence it expects
// before and after copying.
void ShowLaunch(CommSlot* slot, const Call& call, uint32_t tags) {
  if (slot == nullptr) return;
  CollectiveSignature* entry = &slot->recent[call.sequence % kRecentCollectives];
  std::atomic_ref<uint64_t> sequence(entry->sequence);
  sequence.store(UINT64_MAX, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry->bytes = call.bytes;
  entry->launch_ticks = call.launch_ticks;
  entry->peer = call.peer;
  entry->operation = call.operation;
  entry->data_type = call.data_type;
  entry->flags = call.flags;
  sequence.store(call.sequence, std::memory_order_release);
  RaiseTo(&slot->launched, call.sequence + tags);
}

void ShowCompletion(CommSlot* slot, uint32_t tags) {
  if (slot == nullptr) return;
  slot->completed.fetch_add(tags, std::memory_order_relaxed);
  slot->last_end_ticks.store(NowTicks(), std::memory_order_relaxed);
}

}  // namespace

// Decided by the place of the call, not by the stack alone: a launch that an exception cut short
// still looks as if it were under way, and must not swallow what is called from a deeper stack
// later.
bool IsHelperCall(const void* group, const Site& site) {
  if (t_launch.group != group) return false;
  const uint64_t frame = reinterpret_cast<uintptr_t>(site.frame);
  if (frame >= t_launch.frame) return false;
  const CodePlace place = LocateCode(site.caller);
  if (place.function != nullptr &&
      (place.function == t_launch.real || place.function == t_launch.helper)) {
    return true;
  }
  if (place.in_this_library) return true;  // by a tail call, which returns to our hook
  // A lambda in a blocking call has no exported name.
  return t_launch.style == LaunchStyle::kBlocking && place.function == nullptr &&
         t_launch.frame - frame < kHelperStackBytes;
}

bool LaunchBegin(const void* group, const Call& call, LaunchStyle style, const Site& site) {
  if (!IsRecording()) return false;
  if (IsHelperCall(group, site)) {
    t_launch.helper = site.real;
    if (t_launch.style == LaunchStyle::kBatch) {
      t_launch.bytes = call.bytes;
      t_launch.data_type = call.data_type;
      t_launch.flags = call.flags;
    }
    return false;
  }
  const uint32_t tag = t_launch.tag;
  t_launch = Launch{};
  t_launch.group = group;
  t_launch.frame = reinterpret_cast<uintptr_t>(site.frame);
  t_launch.real = site.real;
  t_launch.bytes = call.bytes;
  t_launch.launch_ticks = NowTicks();
  t_launch.peer = call.peer;
  t_launch.tag = tag;
  t_launch.operation = call.operation;
  t_launch.data_type = call.data_type;
  t_launch.flags = call.flags;
  t_launch.style = style;
  return true;
}

void LaunchTag(const void* group, uint32_t tag) {
  if (!IsRecording()) return;
  Launch& launch = t_launch;
  const bool under_way = launch.group == group;
  // A blocking launch may draw several; it is known by the first.
  if (!under_way || launch.style != LaunchStyle::kBlocking || launch.tags == 0) launch.tag = tag;
  if (!under_way) return;
  ++launch.tags;
  if (launch.style != LaunchStyle::kBlocking) return;
  const GlooGroup found = FindGroup(group);
  const Call call = CallOf(launch, found.comm);
  ShowLaunch(found.slot, call, launch.tags);
  if (launch.tags == 1) {
    const CallToken token = BeginCall(call, reinterpret_cast<const void*>(launch.frame));
    launch.start_ticks = token.start_ticks;
    launch.depth = token.depth;
  }
}

void LaunchEnqueue(const void* group, const void* work) {
  if (!IsRecording() || work == nullptr) return;
  const GlooGroup found = FindGroup(group);
  Launch launch = t_launch;
  if (launch.group != group) {  // by a way in that we do not know
    launch = Launch{};
    launch.tag = t_launch.tag;
    launch.flags = kEventBytesUnknown;
    launch.launch_ticks = NowTicks();
  }
  PendingWork pending;
  pending.call = CallOf(launch, found.comm);
  pending.slot = found.slot;
  ShowLaunch(found.slot, pending.call, 1);
  if (!g_works.Put(work, pending)) CountDrop(DropReason::kWorkTable);
}

void LaunchEnd() {
  Launch& launch = t_launch;
  if (launch.style == LaunchStyle::kBlocking && launch.start_ticks != 0) {
    const GlooGroup found = FindGroup(launch.group);
    EndCall(CallToken{launch.start_ticks, launch.depth}, CallOf(launch, found.comm));
    ShowCompletion(found.slot, launch.tags);
  }
  launch.group = nullptr;
}

void ExecuteBegin(const void* work, const void* frame, Execution* execution) {
  execution->known = false;
  if (!IsRecording()) return;
  PendingWork pending;
  if (!g_works.Take(work, &pending)) return;
  t_execution_failed = false;
  execution->call = pending.call;
  execution->slot = pending.slot;
  execution->token = BeginCall(pending.call, frame);
  execution->known = true;
}

void ExecuteEnd(const Execution& execution) {
  if (!execution.known || !IsRecording()) return;
  Call call = execution.call;
  if (t_execution_failed) call.flags |= kEventFailed;
  EndCall(execution.token, call);
  if (execution.slot == nullptr) return;
  if (call.kind == EventKind::kCollective) {
    ShowCompletion(execution.slot, 1);
  } else {
    execution.slot->p2p_completed.fetch_add(1, std::memory_order_relaxed);
  }
}

void ExecuteFailed() { t_execution_failed = true; }

void TransferLaunch(const void* group, const Call& call, const void* work) {
  if (!IsRecording() || work == nullptr) return;
  const GlooGroup found = FindGroup(group);
  PendingWork pending;
  pending.call = call;
  pending.call.comm = found.comm;
  pending.slot = found.slot;
  if (found.slot != nullptr) {
    pending.call.sequence = found.slot->p2p_launched.fetch_add(1, std::memory_order_relaxed);
  }
  if (!g_works.Put(work, pending)) CountDrop(DropReason::kWorkTable);
}

}  // namespace flare
