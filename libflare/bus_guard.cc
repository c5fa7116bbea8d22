// SPDX-License-Identifier: Apache-2.0
#include "libflare/bus_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libflare/process_facts.h"
#include "libflare/recorder_state.h"

namespace flare {
namespace {

constinit struct sigaction g_previous = {};

bool IsInSegment(const GatePage* page, const void* address) {
  const char* byte = static_cast<const char*>(address);
  return byte >= page->segment_begin && byte < page->segment_begin + page->segment_bytes;
}

// By system call: the C library's fstat got a new symbol version in 2.33.
bool IsSegmentCut(const GatePage* page) {
  struct stat status;
  return syscall(SYS_fstat, g_state.segment.fd, &status) == 0 &&
         status.st_ino == g_state.segment.inode &&
         static_cast<uint64_t>(status.st_size) < page->segment_bytes;
}

bool ReplaceSegment(GatePage* page) {
  page->gate.armed.store(0, std::memory_order_release);
  return mmap(page->segment_begin, page->segment_bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void HandleBusError(int signal_number, siginfo_t* info, void*) {
  ErrnoKeeper keep;
  GatePage* page = CurrentGatePage();
  const bool fault = info->si_code > 0;  // raised by the kernel, not sent by a process
  if (page != nullptr && page->segment_begin != nullptr) {
    if (fault && IsInSegment(page, info->si_addr) && ReplaceSegment(page)) return;
    // A later handler that raises the signal again hides the address. The fault itself is still to
    // come, when that handler returns.
    const bool raised_here = !fault && info->si_pid == CurrentPid();
    if (raised_here && IsSegmentCut(page) && ReplaceSegment(page)) return;
  }
  sigaction(signal_number, &g_previous, nullptr);
  // A fault happens again on return and now finds the other handler; a signal that was sent is sent
  // again as it came.
  if (fault) return;
  const int pid = CurrentPid(), tid = CurrentTid();
  if (syscall(SYS_rt_tgsigqueueinfo, pid, tid, signal_number, info) != 0) {
    syscall(SYS_tgkill, pid, tid, signal_number);
  }
}

}  // namespace

void EnsureBusGuard() {
  static constinit std::atomic<uint32_t> installed{0};
  if (installed.load(std::memory_order_relaxed) != 0 || installed.exchange(1) != 0) return;
  ErrnoKeeper keep;
  if (sigaction(SIGBUS, nullptr, &g_previous) != 0) return;
  if (g_previous.sa_handler == SIG_IGN && (g_previous.sa_flags & SA_SIGINFO) == 0) return;
  struct sigaction guard = {};
  guard.sa_sigaction = HandleBusError;
  guard.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &guard, nullptr);
}

}  // namespace flare
