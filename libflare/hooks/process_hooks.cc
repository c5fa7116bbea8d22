// SPDX-License-Identifier: Apache-2.0
#include "libflare/hooks/process_hooks.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libflare/glibc_compat.h"
#include "libflare/recorder_state.h"

namespace flare {
namespace {

using ExitFunction = void (*)(int);
using ExecFunction = int (*)(const char*, char* const*);
using ExecEnvFunction = int (*)(const char*, char* const*, char* const*);
using ExecFdFunction = int (*)(int, char* const*, char* const*);

constinit ExitFunction g_exit = nullptr;
constinit ExitFunction g_exit_c99 = nullptr;
constinit ExitFunction g_quick_exit = nullptr;
constinit ExecFunction g_execv = nullptr;
constinit ExecFunction g_execvp = nullptr;
constinit ExecEnvFunction g_execve = nullptr;
constinit ExecEnvFunction g_execvpe = nullptr;
constinit ExecFdFunction g_fexecve = nullptr;

template <typename Function>
void Find(const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void RecordExit(int status) {
  if (!IsRecording() || !OwnsSegment()) return;
  Header()->exit_code.store(status & 0xff, std::memory_order_relaxed);
  Header()->phase.store(static_cast<uint32_t>(ProcessPhase::kExited), std::memory_order_release);
}

// Marks the process as replaced before an exec, and as running again when the exec failed.
class ExecMark {
 public:
  ExecMark() : marked_(IsRecording() && OwnsSegment()) { Set(ProcessPhase::kReplaced); }
  ~ExecMark() { Set(ProcessPhase::kRunning); }
  ExecMark(const ExecMark&) = delete;
  ExecMark& operator=(const ExecMark&) = delete;

 private:
  void Set(ProcessPhase phase) {
    if (!marked_) return;
    Header()->phase.store(static_cast<uint32_t>(phase), std::memory_order_release);
  }
  bool marked_;
};

int NoSuchFunction() {
  errno = ENOSYS;
  return -1;
}

}  // namespace

void FindProcessFunctions() {
  if (dlsym == nullptr) return;
  Find("_exit", &g_exit);
  Find("_Exit", &g_exit_c99);
  Find("quick_exit", &g_quick_exit);
  Find("execv", &g_execv);
  Find("execve", &g_execve);
  Find("execvp", &g_execvp);
  Find("execvpe", &g_execvpe);
  Find("fexecve", &g_fexecve);
}

}  // namespace flare

#define FLARE_EXPORT extern "C" __attribute__((visibility("default")))

FLARE_EXPORT [[noreturn]] void _exit(int status) {
  flare::RecordExit(status);
  if (flare::g_exit != nullptr) flare::g_exit(status);
  for (;;) syscall(SYS_exit_group, status);
}

FLARE_EXPORT [[noreturn]] void _Exit(int status) {
  flare::RecordExit(status);
  if (flare::g_exit_c99 != nullptr) flare::g_exit_c99(status);
  for (;;) syscall(SYS_exit_group, status);
}

FLARE_EXPORT [[noreturn]] void quick_exit(int status) {
  flare::RecordExit(status);
  if (flare::g_quick_exit != nullptr) flare::g_quick_exit(status);
  for (;;) syscall(SYS_exit_group, status);
}

FLARE_EXPORT int execve(const char* path, char* const* arguments, char* const* environment) {
  flare::ExecMark mark;
  if (flare::g_execve == nullptr) {
    return static_cast<int>(syscall(SYS_execve, path, arguments, environment));
  }
  return flare::g_execve(path, arguments, environment);
}

FLARE_EXPORT int execv(const char* path, char* const* arguments) {
  flare::ExecMark mark;
  if (flare::g_execv == nullptr) {
    return static_cast<int>(syscall(SYS_execve, path, arguments, environ));
  }
  return flare::g_execv(path, arguments);
}

FLARE_EXPORT int execvp(const char* file, char* const* arguments) {
  flare::ExecMark mark;
  return flare::g_execvp != nullptr ? flare::g_execvp(file, arguments) : flare::NoSuchFunction();
}

FLARE_EXPORT int execvpe(const char* file, char* const* arguments, char* const* environment) {
  flare::ExecMark mark;
  return flare::g_execvpe != nullptr ? flare::g_execvpe(file, arguments, environment)
                                     : flare::NoSuchFunction();
}

FLARE_EXPORT int fexecve(int fd, char* const* arguments, char* const* environment) {
  flare::ExecMark mark;
  return flare::g_fexecve != nullptr ? flare::g_fexecve(fd, arguments, environment)
                                     : flare::NoSuchFunction();
}
