// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

// One process for its whole life: a pid alone may be reused, pid and start time may not.
namespace flare::cli {

struct ProcessIdentity {
  pid_t pid = 0;
  uint64_t start_clock_ticks = 0;  // field 22 of /proc/PID/stat
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

// Absent when no such process is to be seen. A zombie counts as gone.
std::optional<ProcessIdentity> IdentifyProcess(pid_t pid);

bool StillRuns(const ProcessIdentity& process);

// Sends `signal` to exactly this process, never to a later owner of its pid. False when it is gone.
bool SignalExactly(const ProcessIdentity& process, int signal);

// Changes at each boot of the machine: pids of before mean nothing. Empty when unknown.
std::string BootId();

}  // namespace flare::cli
