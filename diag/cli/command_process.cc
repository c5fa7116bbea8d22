// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/command_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

extern char** environ;

namespace flare::cli {
namespace {

// Runs in the child until exec. One thread, so everything may be called.
[[noreturn]] void BecomeCommand(std::vector<std::string> arguments,
                                std::vector<std::string> environment, const sigset_t& mask,
                                const struct sigaction& child_action, int error_pipe) {
  sigaction(SIGCHLD, &child_action, nullptr);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> variables;
  for (std::string& variable : environment) variables.push_back(variable.data());
  variables.push_back(nullptr);
  execvpe(argv[0], argv.data(), variables.data());
  const int error = errno;
  (void)!write(error_pipe, &error, sizeof(error));
  _exit(127);
}

// errno of a failed exec, 0 once the pipe was closed by a successful one.
int ReadExecError(int fd) {
  int error = 0;
  ssize_t n;
  do {
    n = read(fd, &error, sizeof(error));
  } while (n < 0 && errno == EINTR);
  return n == sizeof(error) ? error : 0;
}

}  // namespace

sigset_t HandledSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE,
                           SIGTSTP, SIGCONT, SIGWINCH}) {
    sigaddset(&set, signal);
  }
  return set;
}

Result<StartedCommand> StartCommand(const std::vector<std::string>& arguments,
                                    const std::vector<Variable>& variables) {
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) return Status::Error(std::strerror(errno));
  // Blocked, not handled: the child need not undo anything, and a signal that comes between here
  // and the first look at the descriptor waits.
  const sigset_t handled = HandledSignals();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &handled, &before);
  // Who ignores SIGCHLD never learns how its children ended.
  struct sigaction wanted {};
  wanted.sa_handler = SIG_DFL;
  struct sigaction inherited {};
  sigaction(SIGCHLD, &wanted, &inherited);
  StartedCommand command;
  const std::vector<std::string> environment = ChangedEnvironment(variables);
  command.pid = fork();
  if (command.pid == 0) BecomeCommand(arguments, environment, before, inherited, error_pipe[1]);
  const int fork_errno = errno;
  close(error_pipe[1]);
  if (command.pid < 0) {
    close(error_pipe[0]);
    return Status::Error(std::string("fork: ") + std::strerror(fork_errno));
  }
  command.exec_errno = ReadExecError(error_pipe[0]);
  close(error_pipe[0]);
  if (command.exec_errno != 0) {
    while (waitpid(command.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return command;
}

int ExitStatus(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace flare::cli
