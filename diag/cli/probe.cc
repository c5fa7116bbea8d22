// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/probe.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

extern char** environ;

namespace flare::cli {
namespace {

constexpr size_t kMostOutput = 64 << 10;
using Clock = std::chrono::steady_clock;

int Left(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

// False when the deadline came first.
bool ReadOutput(int fd, Clock::time_point deadline, std::string* output) {
  char buffer[4096];
  for (;;) {
    pollfd wait{fd, POLLIN, 0};
    const int ready = poll(&wait, 1, Left(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    output->append(buffer,
                   std::min<size_t>(n, kMostOutput - std::min(kMostOutput, output->size())));
  }
}

// False when the deadline came first.
bool WaitUntil(pid_t pid, Clock::time_point deadline) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return true;  // Linux before 5.3: its output has ended, so will it
  pollfd wait{fd, POLLIN, 0};
  const int ready = poll(&wait, 1, Left(deadline));
  close(fd);
  return ready != 0;
}

Result<pid_t> Spawn(std::vector<std::string> arguments, std::vector<std::string> environment,
                    int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, output, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, arguments[0].c_str(), &actions, &attributes,
                                 Pointers(arguments).data(), Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Status::Error(arguments[0] + ": " + std::strerror(error));
  return pid;
}

}  // namespace

std::vector<std::string> ChangedEnvironment(const std::vector<Variable>& variables) {
  const auto changes = [&](const std::string& entry) {
    return std::any_of(variables.begin(), variables.end(),
                       [&](const Variable& v) { return entry.starts_with(v.first + "="); });
  };
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (!changes(*entry)) environment.emplace_back(*entry);
  }
  for (const Variable& v : variables) {
    if (!v.second.empty()) environment.push_back(v.first + "=" + v.second);
  }
  return environment;
}

Result<ProbeResult> RunProbe(const std::vector<std::string>& arguments,
                             const std::vector<Variable>& variables, int timeout_ms) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return Status::Error(std::strerror(errno));
  const Result<pid_t> pid = Spawn(arguments, ChangedEnvironment(variables), pipe_ends[1]);
  close(pipe_ends[1]);
  if (!pid.ok()) {
    close(pipe_ends[0]);
    return pid.status();
  }
  ProbeResult result;
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  result.timed_out =
      !ReadOutput(pipe_ends[0], deadline, &result.output) || !WaitUntil(*pid, deadline);
  close(pipe_ends[0]);
  if (result.timed_out) kill(*pid, SIGKILL);
  int status = 0;
  while (waitpid(*pid, &status, 0) < 0) {
    if (errno != EINTR) return Status::Error(std::string("wait: ") + std::strerror(errno));
  }
  result.exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace flare::cli
