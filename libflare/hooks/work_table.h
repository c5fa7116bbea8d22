// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "libflare/core/segment_layout.h"
#include "libflare/recorder.h"

// Remembers what was asked for between the launch of a piece of work and its execution, which
// happen on different threads and have only the work's address in common.
//
// Fixed size, no locks, never waits. An address stands for one work at a time: its owner puts it in
// before the other thread can see it, and whoever takes it out is the only one. Work that is never
// taken keeps its place until the same address comes again.
namespace flare {

struct PendingWork {
  Call call;
  CommSlot* slot = nullptr;  // may be null
};

class WorkTable {
 public:
  // False when there is no place near where it belongs.
  bool Put(const void* work, const PendingWork& pending);
  // False when it is not known.
  bool Take(const void* work, PendingWork* pending);

 private:
  static constexpr uint32_t kPlaces = 1024;  // a power of two
  static constexpr uint32_t kProbes = 16;
  static constexpr uint64_t kBusy = 1;  // no object has this address

  struct Place {
    std::atomic<uint64_t> key{0};
    PendingWork pending;
  };
  static uint32_t Home(uint64_t key) {
    return static_cast<uint32_t>((key * 0x9e3779b97f4a7c15ull) >> 40);
  }

  Place places_[kPlaces];
};

}  // namespace flare
