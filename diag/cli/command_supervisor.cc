// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/command_supervisor.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "diag/cli/command_process.h"
#include "diag/cli/crash_guard.h"

namespace flare::cli {
namespace {

constexpr std::chrono::seconds kSettleTime(15);
constexpr std::chrono::seconds kBetweenTermAndKill(5);
constexpr int kCheckMs = 100;  // while ranks are being ended

int SignalDescriptor() {
  const sigset_t handled = HandledSignals();
  return signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

CommandSupervisor::CommandSupervisor(pid_t command, RunObserver* observer, RunConsole* console,
                                     int wake_fd)
    : command_(IdentifyProcess(command).value_or(ProcessIdentity{command, 0})),
      observer_(observer),
      console_(console),
      wake_fd_(wake_fd),
      signal_fd_(SignalDescriptor()) {}

CommandSupervisor::~CommandSupervisor() { close(signal_fd_); }

bool CommandSupervisor::ObserverUsable() const {
  return observer_ != nullptr && !ThreadHasCrashed();
}

bool CommandSupervisor::Finished() const {
  if (!ended_) return false;
  if (given_up_) return true;
  if (!targets_.empty()) return false;
  if (!ObserverUsable()) return true;
  return observer_->done() || Clock::now() >= settle_until_;
}

int CommandSupervisor::PollTimeoutMs() const {
  if (killing_ && (!ended_ || !targets_.empty())) return kCheckMs;
  if (!ended_) return -1;
  const auto left = settle_until_ - Clock::now();
  return static_cast<int>(
      std::max<int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

int CommandSupervisor::Run() {
  ReapCommand();  // it may have ended before the descriptor existed
  while (!Finished()) {
    pollfd wait[2] = {{signal_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    if (poll(wait, 2, PollTimeoutMs()) < 0 && errno != EINTR) break;
    uint64_t wakes;
    if (wait[1].revents != 0) (void)!read(wake_fd_, &wakes, sizeof(wakes));
    ReadSignals();
    if (ObserverUsable() && observer_->kill_wanted() && !killing_) StartKilling();
    if (killing_) ContinueKilling();
  }
  return exit_status_;
}

void CommandSupervisor::ReadSignals() {
  signalfd_siginfo info{};
  while (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) HandleSignal(info);
}

void CommandSupervisor::HandleSignal(const signalfd_siginfo& info) {
  const int signal = static_cast<int>(info.ssi_signo);
  // What the terminal sends goes to the whole process group, so the command has it already; sent
  // again it would count as a second Ctrl-C, which many launchers take as "now, without cleaning
  // up".
  const bool by_process = info.ssi_code <= 0;
  switch (signal) {
    case SIGCHLD:
      return ReapCommand();
    case SIGPIPE:
      return;
    case SIGWINCH:
      return console_->Resized();
    case SIGTSTP:
      return StopWithCommand(info);
    case SIGINT:
    case SIGQUIT:
    case SIGCONT:
      if (by_process) Forward(signal);
      break;
    default:
      Forward(signal);
  }
  if (ended_ && signal != SIGCONT) given_up_ = true;
}

// Stops this process as the terminal wants it, with the screen as the user's shell expects it.
void CommandSupervisor::StopWithCommand(const signalfd_siginfo& info) {
  console_->HideProgress();
  if (info.ssi_code <= 0) Forward(SIGTSTP);
  // Delivered for real: the kernel knows when a stop is out of place (nobody left to continue us).
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  raise(SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
}

void CommandSupervisor::Forward(int signal) {
  // Until we have reaped it, the pid is the command's, dead or alive.
  if (!ended_) kill(command_.pid, signal);
}

void CommandSupervisor::ReapCommand() {
  int status = 0;
  // Any child: as the first process of a container we are given the orphans, too.
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0 && pid != command_.pid) {
  }
  if (ended_ || pid != command_.pid) return;
  ended_ = true;
  exit_status_ = ExitStatus(status);
  settle_until_ = Clock::now() + kSettleTime;
  if (ObserverUsable()) observer_->CommandEnded(exit_status_);
}

void CommandSupervisor::StartKilling() {
  killing_ = true;
  kill_at_ = Clock::now() + kBetweenTermAndKill;
  targets_ = observer_->TakeKillTargets();
  Forward(SIGTERM);
}

// Ranks that outlive the command would keep the machine busy; they get as long as it does.
void CommandSupervisor::ContinueKilling() {
  std::erase_if(targets_, [](const ProcessIdentity& rank) { return !StillRuns(rank); });
  if (Clock::now() < kill_at_) return;
  for (const ProcessIdentity& rank : targets_) SignalExactly(rank, SIGKILL);
  targets_.clear();
  Forward(SIGKILL);
}

}  // namespace flare::cli
