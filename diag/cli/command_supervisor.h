// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/signalfd.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "diag/cli/process_identity.h"
#include "diag/cli/run_console.h"
#include "diag/cli/run_observer.h"
#include "diag/cli/signal_witness.h"

// The main thread of a `flare run`: waits for the command and passes signals on.
//
// It depends on no other thread: an observer that hangs or has crashed is left behind.
namespace flare::cli {

class CommandSupervisor {
 public:
  // `witness` and `observer` may be null. `wake_fd` is an eventfd.
  CommandSupervisor(pid_t command, SignalWitness* witness, RunObserver* observer,
                    RunConsole* console, int wake_fd);
  CommandSupervisor(const CommandSupervisor&) = delete;
  CommandSupervisor& operator=(const CommandSupervisor&) = delete;
  ~CommandSupervisor();

  // Until the command has ended and the observer is done, or has been given time enough. The exit
  // status for flare.
  int Run();

 private:
  using Clock = std::chrono::steady_clock;

  struct PendingSignal {
    int signal = 0;
    bool by_process = false;
    Clock::time_point due;  // when the witness has it if it was for everybody
  };

  bool ObserverUsable() const;
  bool Finished() const;
  int PollTimeoutMs() const;
  void ReadSignals();
  void HandleSignal(const signalfd_siginfo& info);
  void SettlePending();
  void StopWithCommand(const signalfd_siginfo& info);
  void Forward(int signal);
  void ReapCommand();
  void StartKilling();
  void ContinueKilling();

  const ProcessIdentity command_;
  SignalWitness* witness_;
  RunObserver* observer_;
  RunConsole* console_;
  const int wake_fd_;
  const int signal_fd_;

  bool ended_ = false;
  int exit_status_ = 0;
  bool given_up_ = false;  // a signal came while the observer was finishing
  Clock::time_point settle_until_{};

  std::vector<PendingSignal> pending_;  // by due time
  uint64_t witnessed_ = 0;

  bool killing_ = false;
  Clock::time_point kill_at_{};
  std::vector<ProcessIdentity> targets_;
};

}  // namespace flare::cli
