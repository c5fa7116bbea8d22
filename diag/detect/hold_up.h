// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "diag/detect/main_thread.h"

// What a rank that holds the others up is told to be, by what its main thread does.
namespace flare::diag {

struct HoldUp {
  const char* cause;
  double confidence;  // when it is seen for long
  const char* doing;  // "waits for its data loader", "is saving a checkpoint"
  const char* action;
};

// Null for what holds nobody up or is not known: kWaitsForPeers, kUnknown.
const HoldUp* HoldUpBy(Doing doing);

}  // namespace flare::diag
