// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include "libflare/core/bounded_text.h"
#include "libflare/process_facts.h"
#include "libflare/recorder_state.h"

// The page that decides whether this process records, and that a forked child sees as zeros.
extern "C" __attribute__((weak)) int __register_atfork(void (*prepare)(), void (*parent)(),
                                                       void (*child)(), void* dso_handle);
extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;

namespace flare {
namespace {

constexpr size_t kPageBytes = 4096;

constinit Gate g_closed_gate = {};
constinit GatePage* g_page = nullptr;
constinit bool g_wiped_by_kernel = false;

// Kernels before 4.14 cannot wipe; there a raw clone is not noticed, but fork is.
void CloseGateInChild() {
  g_page->gate.armed.store(0, std::memory_order_relaxed);
  g_page->live = 0;
  g_page->owner_pid = 0;
  g_page->segment_begin = nullptr;
}

}  // namespace

constinit Gate* g_gate = &g_closed_gate;

bool PrepareGate() {
  if (g_page != nullptr) return g_page->live != 0;
  void* memory =
      mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  GatePage* page = static_cast<GatePage*>(memory);
  g_wiped_by_kernel = madvise(memory, kPageBytes, MADV_WIPEONFORK) == 0;
  if (!g_wiped_by_kernel &&
      (__register_atfork == nullptr ||
       __register_atfork(nullptr, nullptr, CloseGateInChild, &__dso_handle) != 0)) {
    munmap(memory, kPageBytes);
    return false;
  }
  page->live = 1;
  page->owner_pid = CurrentPid();
  g_page = page;
  g_gate = &page->gate;
  return true;
}

GatePage* CurrentGatePage() { return g_page; }

bool OwnsSegment() {
  return g_page != nullptr && g_page->gate.segment != nullptr && g_page->live != 0 &&
         g_page->owner_pid == CurrentPid();
}

void ArmRecorder(const Segment& segment, TickSource source) {
  SegmentHeader* header = segment.header();
  g_state.segment = segment;
  const SegmentGeometry g = ComputeGeometry(segment.thread_count, segment.ring_events);
  g_state.names = reinterpret_cast<NameSlot*>(segment.base + g.names);
  g_state.comms = reinterpret_cast<CommSlot*>(segment.base + g.comms);
  g_state.threads = reinterpret_cast<ThreadSlot*>(segment.base + g.threads);
  g_state.rings = reinterpret_cast<Event*>(segment.base + g.rings);
  // A child has no use for the rings, and must not be able to write to them.
  if (g_wiped_by_kernel) madvise(segment.base, segment.bytes, MADV_DONTFORK);
  g_page->segment_begin = segment.base;
  g_page->segment_bytes = segment.bytes;
  g_page->gate.tick_source = static_cast<uint32_t>(source);
  g_page->gate.segment = header;
  g_page->gate.armed.store(1, std::memory_order_release);
}

void SwitchOff() {
  if (!OwnsSegment()) return;
  g_page->gate.segment->enabled.store(0, std::memory_order_relaxed);
  g_page->gate.armed.store(0, std::memory_order_release);
}

bool KillSwitchPresent() {
  char path[320];
  BoundedText(path).Add(g_state.config.directory).Add("/disable");
  return access(path, F_OK) == 0 || access("/run/flare/disable", F_OK) == 0;
}

}  // namespace flare
