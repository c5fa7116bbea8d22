// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/command_supervisor.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <thread>

#include "diag/cli/command_process.h"
#include "diag/cli/crash_guard.h"

namespace flare::cli {
namespace {

constexpr std::chrono::seconds kSettleTime(15);
constexpr std::chrono::seconds kBetweenTermAndKill(5);
constexpr int kCheckMs = 100;  // while ranks are being ended
// A signal for everybody reaches one process after the other; this is enough for thousands of them.
constexpr std::chrono::milliseconds kWitnessTime(100);

// Signals by which users and schedulers end a job.
bool Ends(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGQUIT || signal == SIGHUP;
}

int UntilMs(std::chrono::steady_clock::time_point time) {
  const auto left = time - std::chrono::steady_clock::now();
  return static_cast<int>(
      std::max<int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

int SignalDescriptor() {
  const sigset_t handled = HandledSignals();
  return signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

CommandSupervisor::CommandSupervisor(pid_t command, SignalWitness* witness, RunObserver* observer,
                                     RunConsole* console, int wake_fd)
    : command_(IdentifyProcess(command).value_or(ProcessIdentity{command, 0})),
      witness_(witness),
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
  if (!ended_ && pending_.empty()) return -1;
  if (!pending_.empty()) return UntilMs(pending_.front().due);
  return UntilMs(settle_until_);
}

int CommandSupervisor::Run() {
  ReapCommand();  // it may have ended before the descriptor existed
  while (!Finished()) {
    pollfd wait[2] = {{signal_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    if (poll(wait, 2, PollTimeoutMs()) < 0 && errno != EINTR) break;
    uint64_t wakes;
    if (wait[1].revents != 0) (void)!read(wake_fd_, &wakes, sizeof(wakes));
    ReadSignals();
    SettlePending();
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
  switch (signal) {
    case SIGCHLD:
      return ReapCommand();
    case SIGPIPE:
      return;
    case SIGWINCH:
      return console_->Resized();
    case SIGTSTP:
      return StopWithCommand(info);
    default:
      break;
  }
  if (ended_ && signal != SIGCONT) given_up_ = true;
  if (ObserverUsable() && Ends(signal)) observer_->EndExpected();
  pending_.push_back({signal, info.ssi_code <= 0, Clock::now() + kWitnessTime});
}

// Passes on what reached us alone.
void CommandSupervisor::SettlePending() {
  if (pending_.empty() || Clock::now() < pending_.front().due) return;
  const std::optional<uint64_t> seen = witness_ ? witness_->Collect() : std::nullopt;
  if (seen) witnessed_ |= *seen;
  while (!pending_.empty() && Clock::now() >= pending_.front().due) {
    const PendingSignal pending = pending_.front();
    pending_.erase(pending_.begin());
    const uint64_t bit = uint64_t{1} << (pending.signal - 1);
    // Without a witness: what the kernel sends comes from the terminal, to the whole group.
    const bool everybody = seen ? (witnessed_ & bit) != 0 : !pending.by_process;
    witnessed_ &= ~bit;
    if (!everybody) Forward(pending.signal);
  }
}

// Stops this process as the terminal wants it, with the screen as the user's shell expects it.
void CommandSupervisor::StopWithCommand(const signalfd_siginfo& info) {
  console_->HideProgress();
  std::this_thread::sleep_for(kWitnessTime);
  pending_.insert(pending_.begin(), {SIGTSTP, info.ssi_code <= 0, Clock::now()});
  SettlePending();
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
  if (ended_ || waitpid(command_.pid, &status, WNOHANG) != command_.pid) return;
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
