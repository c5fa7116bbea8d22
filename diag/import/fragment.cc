// SPDX-License-Identifier: Apache-2.0
#include "diag/import/fragment.h"

#include <utility>

namespace flare::import {

void KeepStep(diag::RankStep step, RankFragment* rank) {
  rank->record.steps.push_back(std::move(step));
  if (rank->record.steps.size() <= kMostSteps) return;
  rank->record.steps.pop_front();
  ++rank->steps_left_out;
}

}  // namespace flare::import
