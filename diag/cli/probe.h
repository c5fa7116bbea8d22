// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libflare/core/status.h"

// Runs a small program of the system to see how it fares, such as `true` under the preload.
namespace flare::cli {

// A variable to set, or to remove when the value is empty.
using Variable = std::pair<std::string, std::string>;

struct ProbeResult {
  int exit_status = 0;  // 128 + n when killed by signal n
  bool timed_out = false;
  std::string output;  // stdout and stderr together, at most 64 KiB
  friend bool operator==(const ProbeResult&, const ProbeResult&) = default;
};

// Runs `arguments` (the first is looked up in PATH) in our environment changed by `variables`, with
// stdin from /dev/null, and kills it after `timeout_ms`. Starts no thread.
Result<ProbeResult> RunProbe(const std::vector<std::string>& arguments,
                             const std::vector<Variable>& variables, int timeout_ms);

// The environment of this process after `variables`, as NAME=value.
std::vector<std::string> ChangedEnvironment(const std::vector<Variable>& variables);

}  // namespace flare::cli
