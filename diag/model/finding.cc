// SPDX-License-Identifier: Apache-2.0
#include "diag/model/finding.h"

namespace flare::diag {

const char* StateName(FindingState state) {
  switch (state) {
    case FindingState::kSuspected: return "suspected";
    case FindingState::kOpen: return "open";
    case FindingState::kResolved: return "resolved";
    case FindingState::kWithdrawn: return "withdrawn";
  }
  return "suspected";
}

}  // namespace flare::diag
