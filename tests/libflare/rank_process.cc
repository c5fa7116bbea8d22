// SPDX-License-Identifier: Apache-2.0
#include "tests/libflare/rank_process.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <filesystem>

namespace flare {
namespace {

int WaitForStatus(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

}  // namespace

std::string RunAsRank(const std::function<std::string()>& body, const RankSettings& settings) {
  std::string folder = testing::TempDir() + "flare-rank-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return "no temporary folder";
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("FLARE_FORCE", "1", 1);
    setenv("FLARE_DIR", folder.c_str(), 1);
    setenv("FLARE_RING_EVENTS", settings.ring_events, 1);
    setenv("FLARE_THREADS", settings.threads, 1);
    const std::string wrong = EnsureAwake(WakeReason::kCall) ? body() : "did not wake";
    const ssize_t written = write(ends[1], wrong.data(), wrong.size());
    _exit(written == static_cast<ssize_t>(wrong.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string wrong;
  char buffer[512];
  ssize_t count;
  while ((count = read(ends[0], buffer, sizeof(buffer))) > 0) wrong.append(buffer, count);
  close(ends[0]);
  if (WaitForStatus(pid) != 0) wrong += " (the rank died)";
  std::filesystem::remove_all(folder);
  return wrong;
}

int RunInFork(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  return WaitForStatus(pid);
}

int RunInRawClone(const std::function<int()>& body) {
  const pid_t pid = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
  if (pid == 0) _exit(body());
  return WaitForStatus(pid);
}

ThreadSlot* MySlot() {
  const uint32_t tid = static_cast<uint32_t>(syscall(SYS_gettid));
  for (uint32_t i = 0; i < g_state.segment.thread_count; ++i) {
    if (g_state.threads[i].tid.load() == tid) return &g_state.threads[i];
  }
  return nullptr;
}

}  // namespace flare
