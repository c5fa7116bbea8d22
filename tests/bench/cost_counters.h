// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

// Counts what a piece of code asks of the allocator, of locks, and of the kernel.
//
// Allocator and locks: the program's own malloc family and pthread_mutex_lock count and forward.
// System calls: the code runs on a thread of its own under a seccomp filter that traps every call;
// the signal handler counts and answers -ENOSYS.
namespace flare::bench {

struct Costs {
  uint64_t allocations = 0;
  uint64_t locks = 0;
  uint64_t system_calls = 0;
};

// Runs `prepare`, then `work` under the counters, both on a fresh thread. That thread cannot leave
// any more (leaving is a system call): it spins until the process ends. Linux on x86-64 and arm64.
Costs CountCosts(const std::function<void()>& prepare, const std::function<void()>& work);

// One system call that no cache of the C library answers.
void AskTheKernel();

}  // namespace flare::bench
