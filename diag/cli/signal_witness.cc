// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/signal_witness.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace flare::cli {
namespace {

constexpr int kAnswerTimeoutMs = 500;

void CloseAllBut(int fd) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, fd + 1, ~0u, 0) == 0 &&
      (fd == 0 || syscall(SYS_close_range, 0, fd - 1, 0) == 0)) {
    return;
  }
#endif
  const long most = sysconf(_SC_OPEN_MAX);
  for (int other = 0; other < most; ++other) {
    if (other != fd) close(other);
  }
}

// The whole life of the witness: one byte asks, eight bytes answer.
[[noreturn]] void Witness(int fd, pid_t parent) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "flare-witness");
  CloseAllBut(fd);
  (void)!chdir("/");
  if (getppid() != parent) _exit(0);
  char request;
  while (read(fd, &request, 1) == 1) {
    uint64_t seen = 0;
    const timespec now{};
    int signal;
    while ((signal = sigtimedwait(&all, nullptr, &now)) > 0) seen |= uint64_t{1} << (signal - 1);
    if (write(fd, &seen, sizeof(seen)) != sizeof(seen)) break;
  }
  _exit(0);
}

}  // namespace

Result<SignalWitness> SignalWitness::Start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Status::Error(std::strerror(errno));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Witness(ends[1], parent);
  const int fork_errno = errno;
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return Status::Error(std::strerror(fork_errno));
  }
  return SignalWitness(pid, ends[0]);
}

SignalWitness::SignalWitness(SignalWitness&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), fd_(std::exchange(other.fd_, -1)) {}

SignalWitness::~SignalWitness() {
  if (fd_ >= 0) close(fd_);
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);  // ours until it is reaped, so the pid is right
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<uint64_t> SignalWitness::Collect() {
  const char request = 0;
  if (send(fd_, &request, 1, MSG_NOSIGNAL) != 1) return std::nullopt;
  pollfd wait{fd_, POLLIN, 0};
  uint64_t seen = 0;
  if (poll(&wait, 1, kAnswerTimeoutMs) != 1 || read(fd_, &seen, sizeof(seen)) != sizeof(seen)) {
    close(std::exchange(fd_, -1));  // a late answer must not be taken for the next one
    return std::nullopt;
  }
  return seen;
}

}  // namespace flare::cli
