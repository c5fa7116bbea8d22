// SPDX-License-Identifier: Apache-2.0
#include "daemon/host/syscall_names.h"

#include <sys/syscall.h>

namespace flare::daemon {
namespace {

struct Row {
  int64_t number;
  const char* name;
  SyscallArgument argument;
};

constexpr auto kNone = SyscallArgument::kNone;
constexpr auto kFd = SyscallArgument::kDescriptor;
constexpr auto kPath = SyscallArgument::kPath;
constexpr auto kAtPath = SyscallArgument::kPathAfterDescriptor;

#define ROW(call, argument) \
  { SYS_##call, #call, argument }
// Old calls that newer machines lack (open, poll, ...) are listed where the kernel headers know
// them.
constexpr Row kRows[] = {
    ROW(read, kFd),
    ROW(write, kFd),
    ROW(pread64, kFd),
    ROW(pwrite64, kFd),
    ROW(readv, kFd),
    ROW(writev, kFd),
    ROW(preadv, kFd),
    ROW(pwritev, kFd),
    ROW(sendfile, kFd),
    ROW(splice, kFd),
    ROW(fsync, kFd),
    ROW(fdatasync, kFd),
    ROW(sync_file_range, kFd),
    ROW(ftruncate, kFd),
    ROW(fallocate, kFd),
    ROW(flock, kFd),
    ROW(fcntl, kFd),
    ROW(ioctl, kFd),
    ROW(lseek, kFd),
    ROW(close, kFd),
    ROW(fstat, kFd),
    ROW(getdents64, kFd),
    ROW(copy_file_range, kFd),
    ROW(recvfrom, kFd),
    ROW(recvmsg, kFd),
    ROW(sendto, kFd),
    ROW(sendmsg, kFd),
    ROW(connect, kFd),
    ROW(accept, kFd),
    ROW(accept4, kFd),
    ROW(recvmmsg, kFd),
    ROW(sendmmsg, kFd),
    ROW(epoll_pwait, kFd),
    ROW(openat, kAtPath),
    ROW(newfstatat, kAtPath),
    ROW(unlinkat, kAtPath),
    ROW(readlinkat, kAtPath),
    ROW(faccessat, kAtPath),
    ROW(statx, kAtPath),
    ROW(mkdirat, kAtPath),
    ROW(truncate, kPath),
    ROW(chdir, kPath),
    ROW(execve, kPath),
    ROW(statfs, kPath),
    ROW(futex, kNone),
    ROW(ppoll, kNone),
    ROW(pselect6, kNone),
    ROW(nanosleep, kNone),
    ROW(clock_nanosleep, kNone),
    ROW(wait4, kNone),
    ROW(waitid, kNone),
    ROW(sync, kNone),
    ROW(io_getevents, kNone),
    ROW(rt_sigtimedwait, kNone),
    ROW(rt_sigsuspend, kNone),
    ROW(sched_yield, kNone),
    ROW(mmap, kNone),
    ROW(munmap, kNone),
    ROW(msync, kNone),
    ROW(madvise, kNone),
    ROW(exit_group, kNone),
    ROW(semtimedop, kNone),
    ROW(msgrcv, kNone),
    ROW(io_uring_enter, kFd),
    ROW(restart_syscall, kNone),
#ifdef SYS_open
    ROW(open, kPath),
    ROW(stat, kPath),
    ROW(lstat, kPath),
    ROW(access, kPath),
    ROW(unlink, kPath),
    ROW(rename, kPath),
    ROW(mkdir, kPath),
    ROW(readlink, kPath),
    ROW(creat, kPath),
    ROW(poll, kNone),
    ROW(select, kNone),
    ROW(pause, kNone),
    ROW(epoll_wait, kFd),
#endif
};
#undef ROW

}  // namespace

SyscallName NameSyscall(int64_t number) {
  for (const Row& row : kRows) {
    if (row.number == number) return {row.name, row.argument};
  }
  return {"syscall_" + std::to_string(number), SyscallArgument::kNone};
}

}  // namespace flare::daemon
