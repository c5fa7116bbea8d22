// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "libflare/core/clock.h"

// What the kernel says about this process and its ancestors. Reads /proc and /sys; no allocation,
// and every answer may be missing. Slow path only.
namespace flare {

// The real ids, straight from the kernel: old C libraries keep a copy that a raw clone leaves
// stale.
int CurrentPid();
int CurrentTid();

// Reads at most size - 1 bytes and ends them with zero. Bytes read, or -1.
long ReadSmallFile(const char* path, char* buffer, size_t size);

// Field 22 of /proc/<pid>/stat and the parent. False when unreadable.
bool ReadProcessStat(int pid, int* parent_pid, uint64_t* start_clock_ticks);

// Inode of the PID namespace; 0 when unknown.
uint64_t PidNamespace();

// The time-stamp counter where it is invariant and the kernel trusts it.
TickSource ChooseTickSource();

// Not guessable and unlike any other; never 0.
uint64_t NewSourceId();

}  // namespace flare
