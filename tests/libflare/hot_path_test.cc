// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>

#include "libflare/recorder.h"
#include "tests/libflare/rank_process.h"

// A recorded event needs no memory and no system call. This program counts its own allocations, and
// asks the kernel to kill it on any call but the one that ends it.
namespace {
std::atomic<long> g_allocations{0};
}  // namespace

extern "C" void* __libc_malloc(size_t);
extern "C" void* __libc_calloc(size_t, size_t);
extern "C" void* __libc_realloc(void*, size_t);

// Under a sanitizer the allocator is its own; there the kernel's check alone remains.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" void* malloc(size_t bytes) {
  g_allocations.fetch_add(1);
  return __libc_malloc(bytes);
}
extern "C" void* calloc(size_t count, size_t bytes) {
  g_allocations.fetch_add(1);
  return __libc_calloc(count, bytes);
}
extern "C" void* realloc(void* memory, size_t bytes) {
  g_allocations.fetch_add(1);
  return __libc_realloc(memory, bytes);
}
#endif

namespace flare {
namespace {

// From here on only the end of the process is allowed. Not the kernel's strict mode: that also
// forbids reading the time-stamp counter, and with it every clock.
bool ForbidSystemCalls() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog program{sizeof(code) / sizeof(code[0]), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

void RecordOne(uint64_t sequence, CommSlot* slot) {
  Call call;
  call.kind = EventKind::kCollective;
  call.comm = slot->comm.load(std::memory_order_relaxed);
  call.sequence = sequence;
  EndCall(BeginCall(call, __builtin_frame_address(0)), call);
}

TEST(HotPathTest, RecordsWithoutMemoryOrSystemCalls) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              CommSlot* slot = OpenCommunicator(3, "group", 0, 2);
              RecordOne(0, slot);  // claims the slot of this thread
              const ThreadSlot* thread = MySlot();
              const long before = g_allocations.load();
              FLARE_REQUIRE(ForbidSystemCalls());
              for (uint64_t i = 0; i < 100'000; ++i) RecordOne(i, slot);
              const long allocations = g_allocations.load() - before;
              syscall(SYS_exit_group, allocations == 0 && thread->head.load() == 64 ? 0 : 1);
              return "still here";
            }),
            "");
}

// That the test above can fail.
TEST(HotPathTest, HarmlessSystemCallIsCaughtToo) {
  EXPECT_NE(RunAsRank([]() -> std::string {
              FLARE_REQUIRE(ForbidSystemCalls());
              syscall(SYS_getppid);
              syscall(SYS_exit_group, 0);
              return "";
            }),
            "");
}

TEST(HotPathTest, InactiveHooksCostOneLoadAndNoMemory) {
  const long before = g_allocations.load();
  Call call;
  for (int i = 0; i < 100'000; ++i) EndCall(BeginCall(call, nullptr), call);
  EXPECT_EQ(g_allocations.load(), before);
}

}  // namespace
}  // namespace flare
