// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/cost_counters.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace flare::bench {
namespace {

// Only the thread under the counters counts.
thread_local bool t_counted = false;
std::atomic<uint64_t> g_allocations{0}, g_locks{0}, g_system_calls{0};

using LockFunction = int (*)(pthread_mutex_t*);
LockFunction g_real_lock = nullptr;

// The call was not made: say so where its result is expected.
void CountSystemCall(int, siginfo_t*, void* context) {
  g_system_calls.fetch_add(1);
  mcontext_t& registers = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  registers.gregs[REG_RAX] = -ENOSYS;
#else
  registers.regs[0] = static_cast<uint64_t>(-ENOSYS);
#endif
}

// From here on every system call of this thread is SIGSYS, but for the return from its handler.
bool TrapSystemCalls() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),  // the number of the call
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  const sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace

Costs CountCosts(const std::function<void()>& prepare, const std::function<void()>& work) {
  g_real_lock = reinterpret_cast<LockFunction>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  struct sigaction action = {};
  action.sa_sigaction = CountSystemCall;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  // Static, as the thread never leaves.
  static std::atomic<int> state{0};
  state = 0;
  std::thread([prepare, work] {
    prepare();
    if (!TrapSystemCalls()) {
      state = 2;
      return;
    }
    t_counted = true;
    work();
    t_counted = false;
    state = 1;
    for (;;) __asm__ volatile("" ::: "memory");
  }).detach();
  while (state == 0) usleep(1000);
  if (state == 2) {
    std::fprintf(stderr, "this kernel does not allow seccomp filters\n");
    std::exit(3);
  }
  return {g_allocations.exchange(0), g_locks.exchange(0), g_system_calls.exchange(0)};
}

void AskTheKernel() { syscall(SYS_getppid); }

}  // namespace flare::bench

using flare::bench::g_allocations;
using flare::bench::t_counted;

extern "C" {

void* malloc(size_t bytes) {
  if (t_counted) g_allocations.fetch_add(1);
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  if (t_counted) g_allocations.fetch_add(1);
  return __libc_calloc(count, bytes);
}

void* realloc(void* block, size_t bytes) {
  if (t_counted) g_allocations.fetch_add(1);
  return __libc_realloc(block, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  if (t_counted) g_allocations.fetch_add(1);
  return __libc_memalign(alignment, bytes);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (t_counted) flare::bench::g_locks.fetch_add(1);
  if (flare::bench::g_real_lock == nullptr) {
    flare::bench::g_real_lock =
        reinterpret_cast<flare::bench::LockFunction>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  }
  return flare::bench::g_real_lock(mutex);
}

}  // extern "C"
