// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <cstdint>

// The clock of the hot path: raw ticks, converted to nanoseconds elsewhere.
//
// Ticks are the time-stamp counter where the CPU keeps an invariant one (about 12 ns to read), else
// CLOCK_MONOTONIC nanoseconds (about 29 ns). All ranks of a node use the same source; the segment
// header says which. Safe from any thread and signal handler; changes neither errno nor state.
namespace flare {

enum class TickSource : uint32_t { kMonotonicNs = 0, kTsc = 1 };

inline uint64_t MonotonicNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

inline uint64_t RealtimeNs() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

inline uint64_t ReadTicks(TickSource source) {
#if defined(__x86_64__)
  if (source == TickSource::kTsc) return __builtin_ia32_rdtsc();
#endif
  (void)source;
  return MonotonicNs();
}

}  // namespace flare
