// SPDX-License-Identifier: Apache-2.0
#include "libflare/hooks/work_table.h"

namespace flare {

bool WorkTable::Put(const void* work, const PendingWork& pending) {
  const uint64_t key = reinterpret_cast<uintptr_t>(work);
  const uint32_t home = Home(key);
  // An entry left by a work that died untaken and had the same address gives its place.
  for (uint64_t wanted : {key, uint64_t{0}}) {
    for (uint32_t i = 0; i < kProbes; ++i) {
      Place& place = places_[(home + i) % kPlaces];
      uint64_t expected = wanted;
      if (!place.key.compare_exchange_strong(expected, kBusy, std::memory_order_acquire)) continue;
      place.pending = pending;
      place.key.store(key, std::memory_order_release);
      return true;
    }
  }
  return false;
}

bool WorkTable::Take(const void* work, PendingWork* pending) {
  const uint64_t key = reinterpret_cast<uintptr_t>(work);
  const uint32_t home = Home(key);
  for (uint32_t i = 0; i < kProbes; ++i) {
    Place& place = places_[(home + i) % kPlaces];
    uint64_t expected = key;
    if (!place.key.compare_exchange_strong(expected, kBusy, std::memory_order_acquire)) continue;
    *pending = place.pending;
    place.key.store(0, std::memory_order_release);
    return true;
  }
  return false;
}

}  // namespace flare
