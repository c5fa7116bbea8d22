// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "diag/model/job.h"

// What an uncaught exception says about who is at fault.
namespace flare::diag {

enum class Raised : uint8_t {
  kNothing,
  kPeerLost,   // a connection broke or timed out: another process is the cause
  kCancelled,  // interrupted or told to end from outside
  kOwn,        // an error of this rank's own program
};

Raised RaisedBy(const ProcessState& process);

}  // namespace flare::diag
