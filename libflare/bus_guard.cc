// SPDX-License-Identifier: Apache-2.0
#include "libflare/bus_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libflare/process_facts.h"
#include "libflare/recorder_state.h"

namespace flare {
namespace {

bool IsInSegment(const GatePage* page, const void* address) {
  if (page == nullptr || page->segment_begin == nullptr) return false;
  const char* byte = static_cast<const char*>(address);
  return byte >= page->segment_begin && byte < page->segment_begin + page->segment_bytes;
}

void HandleBusError(int signal_number, siginfo_t* info, void*) {
  ErrnoKeeper keep;
  GatePage* page = CurrentGatePage();
  const bool fault = info->si_code > 0;  // raised by the kernel, not sent by a process
  if (fault && IsInSegment(page, info->si_addr)) {
    page->gate.armed.store(0, std::memory_order_release);
    void* memory = mmap(page->segment_begin, page->segment_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (memory != MAP_FAILED) return;
  }
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal_number, &standard, nullptr);
  // A fault happens again on return and now ends the process; a signal that was sent does not.
  if (!fault) syscall(SYS_tgkill, CurrentPid(), CurrentTid(), signal_number);
}

}  // namespace

void InstallBusGuard() {
  struct sigaction current;
  if (sigaction(SIGBUS, nullptr, &current) != 0) return;
  if ((current.sa_flags & SA_SIGINFO) != 0 || current.sa_handler != SIG_DFL) return;
  struct sigaction guard = {};
  guard.sa_sigaction = HandleBusError;
  guard.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &guard, nullptr);
}

}  // namespace flare
