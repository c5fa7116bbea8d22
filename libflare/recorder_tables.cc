// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "libflare/bus_guard.h"
#include "libflare/core/bounded_text.h"
#include "libflare/recorder.h"
#include "libflare/recorder_state.h"

// The slow half of the recorder: names, communicators, and facts for the header.
namespace flare {
namespace {

constinit std::atomic<uint32_t> g_tables_lock{0};
constinit std::atomic<void (*)()> g_framework_listener{nullptr};
constinit std::atomic<uint32_t> g_framework_seen{0};

// Makes `version` odd while a reader must not trust what it guards.
class VersionWrite {
 public:
  explicit VersionWrite(std::atomic<uint32_t>* version) : version_(version) {
    odd_ = version_->load(std::memory_order_relaxed) | 1;
    version_->store(odd_, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~VersionWrite() { version_->store(odd_ + 1, std::memory_order_release); }
  VersionWrite(const VersionWrite&) = delete;
  VersionWrite& operator=(const VersionWrite&) = delete;

 private:
  std::atomic<uint32_t>* version_;
  uint32_t odd_;
};

uint32_t InternLocked(const char* text) {
  char cut[kNameBytes];
  BoundedText(cut).Add(text);
  static constinit uint32_t used = 0;  // not read back from the segment
  for (uint32_t id = 1; id <= used; ++id) {
    if (std::strncmp(g_state.names[id].text, cut, kNameBytes) == 0) return id;
  }
  if (used + 1 >= kMaxNames) {
    CountDrop(DropReason::kNameTable);
    return 0;
  }
  ++used;
  std::memcpy(g_state.names[used].text, cut, kNameBytes);
  Header()->name_count.store(used, std::memory_order_release);
  return used;
}

}  // namespace

uint32_t InternName(const char* text) {
  if (text == nullptr || text[0] == '\0' || !IsRecording()) return 0;
  EnsureBusGuard();
  SlowLock lock(&g_tables_lock);
  return InternLocked(text);
}

CommSlot* OpenCommunicator(uint64_t comm, const char* name, uint32_t group_rank,
                           uint32_t group_size) {
  if (comm == 0 || !IsRecording()) return nullptr;
  EnsureBusGuard();
  SlowLock lock(&g_tables_lock);
  for (uint32_t i = 0; i < kMaxComms; ++i) {
    CommSlot* slot = &g_state.comms[i];
    const uint64_t holder = slot->comm.load(std::memory_order_relaxed);
    if (holder == comm) return slot;
    if (holder != 0) continue;
    VersionWrite write(&slot->version);
    slot->group_rank = group_rank;
    slot->group_size = group_size;
    slot->name_id = name == nullptr ? 0 : InternLocked(name);
    slot->comm.store(comm, std::memory_order_release);
    return slot;
  }
  CountDrop(DropReason::kNoCommSlot);
  return nullptr;
}

void SetFramework(const char* text) {
  if (!IsRecording()) return;
  EnsureBusGuard();
  SlowLock lock(&g_tables_lock);
  VersionWrite write(&Header()->facts_version);
  BoundedText(Header()->framework).Add(text);
}

void SetPython(uint32_t version_hex, uint64_t runtime_address, uint64_t main_thread_state) {
  if (!IsRecording()) return;
  EnsureBusGuard();
  SlowLock lock(&g_tables_lock);
  VersionWrite write(&Header()->facts_version);
  Header()->python_version_hex = version_hex;
  Header()->python_runtime_address = runtime_address;
  Header()->python_main_thread_state = main_thread_state;
}

void SetPartState(Part part, PartState state) {
  if (!IsRecording()) return;
  EnsureBusGuard();
  Header()->part_state[static_cast<size_t>(part)].store(static_cast<uint32_t>(state),
                                                        std::memory_order_relaxed);
}

PartState GetPartState(Part part) {
  if (!IsRecording()) return PartState::kIdle;
  return static_cast<PartState>(
      Header()->part_state[static_cast<size_t>(part)].load(std::memory_order_relaxed));
}

void CountDrop(DropReason reason) {
  if (!IsRecording()) return;
  EnsureBusGuard();
  Header()->drops[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
}

void RecordException(const char* type, const char* text) {
  if (!IsRecording()) return;
  EnsureBusGuard();
  SlowLock lock(&g_tables_lock);
  VersionWrite write(&Header()->exception_version);
  BoundedText(Header()->exception_type).Add(type == nullptr ? "" : type);
  BoundedText(Header()->exception_text).Add(text == nullptr ? "" : text);
}

void SetFrameworkListener(void (*listener)()) {
  g_framework_listener.store(listener, std::memory_order_release);
  if (g_framework_seen.load(std::memory_order_acquire) != 0 && listener != nullptr) listener();
}

void NotifyFramework() {
  g_framework_seen.store(1, std::memory_order_release);
  void (*listener)() = g_framework_listener.load(std::memory_order_acquire);
  if (listener != nullptr) listener();
}

}  // namespace flare
