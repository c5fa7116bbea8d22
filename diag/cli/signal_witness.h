// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "libflare/core/status.h"

// Tells whether a signal was meant for this process alone or for everybody around it.
//
// The terminal, a shell, systemd and Slurm signal the whole process group, control group or job
// step, so the command of a `flare run` has the signal already; passed on as well, it would count
// as a second one, which launchers take as "now, without cleaning up". Nothing in Linux tells a
// process to whom else a signal went. So a small process of ours stands beside the command, in the
// same groups, does nothing, and notes the signals it gets: what reached it reached the command.
namespace flare::cli {

class SignalWitness {
 public:
  // Forks. Call while there is one thread and the handled signals are blocked. The witness holds no
  // descriptor of the user's and ends with this process.
  static Result<SignalWitness> Start();
  SignalWitness(SignalWitness&& other) noexcept;
  SignalWitness& operator=(SignalWitness&&) = delete;
  ~SignalWitness();

  // The signals that have reached the witness since the last call, bit n - 1 for signal n. Absent
  // when it cannot be asked.
  std::optional<uint64_t> Collect();

 private:
  SignalWitness(pid_t pid, int fd) : pid_(pid), fd_(fd) {}
  pid_t pid_;
  int fd_;
};

}  // namespace flare::cli
