// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "diag/cli/probe.h"
#include "libflare/core/status.h"

// The command of `flare run`: started as the shell would have started it, and its end.
//
// It stays in our process group, so the terminal treats it as before. It gets the descriptors,
// signal mask and dispositions that we were given, not ours.
namespace flare::cli {

struct StartedCommand {
  pid_t pid = 0;
  int exec_errno = 0;  // not 0: the command could not be executed; it is already reaped
};

// Blocks the signals that a `flare run` handles itself (HandledSignals) in this process, and starts
// the command with the mask of before. Call it while the process has one thread and holds no
// descriptor without close-on-exec.
Result<StartedCommand> StartCommand(const std::vector<std::string>& arguments,
                                    const std::vector<Variable>& variables);

// Signals that are read from a descriptor instead of being delivered.
sigset_t HandledSignals();

// Exit status of flare for a wait status of the command: 128 + n when killed by signal n.
int ExitStatus(int wait_status);

}  // namespace flare::cli
