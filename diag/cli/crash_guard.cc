// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/crash_guard.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>

namespace flare::cli {
namespace {

std::atomic<bool> g_crashed{false};
std::atomic<int> g_wake_fd{-1};
pid_t g_main_thread = 0;

void OnCrash(int signal) {
  if (static_cast<pid_t>(syscall(SYS_gettid)) == g_main_thread) {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
    raise(signal);
    return;
  }
  g_crashed.store(true);
  const uint64_t one = 1;
  (void)!write(g_wake_fd.load(), &one, sizeof(one));
  for (;;) pause();
}

}  // namespace

void InstallCrashGuard(int wake_fd) {
  g_wake_fd.store(wake_fd);
  g_main_thread = static_cast<pid_t>(syscall(SYS_gettid));
  struct sigaction action {};
  action.sa_handler = OnCrash;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    sigaction(signal, &action, nullptr);
  }
}

bool ThreadHasCrashed() { return g_crashed.load(); }

}  // namespace flare::cli
