// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diag/model/job.h"

// Disagreement between ranks that shows in finished steps, while the job may still be running:
// equal-sized collectives pair up one off without anybody noticing.
//
// Only steps that every user of a communicator reported without drops are compared. A rank counts
// as odd when it falls out of step with all others (with two ranks: out of its own earlier pattern)
// after kAlignedSteps steps in line, and stays so by the same number for kConfirmedSteps steps.
// That is strong but no proof: an asynchronous collective that ends now before, now after the end
// of the step in which it was launched moves counts as well.
namespace flare::diag {

inline constexpr size_t kAlignedSteps = 8;
inline constexpr size_t kConfirmedSteps = 6;

struct StepDisagreement {
  CommId communicator;
  StepId step;  // the step in which it happened
  std::vector<Rank> odd;
  std::vector<Rank> others;
  // Calls that odd ranks made less (below 0) or more than the others; 0 = as many, but different
  // ones.
  int64_t difference = 0;
  uint32_t odd_count = 0;    // collectives of an odd rank in this step
  uint32_t usual_count = 0;  // of the others
  std::string odd_call;      // 0 difference: what differs, in words, such as "all-reduce of 8 B"
  std::string usual_call;
  uint64_t since_unix_ns = 0;  // end of the step
};

// At most one per communicator, the first in time.
std::vector<StepDisagreement> FindStepDisagreements(const Job& job);

// Number of kept steps in which both ranks began with the same sequence number on the communicator.
size_t StepsInLine(const RankRecord& a, const RankRecord& b, CommId communicator);

}  // namespace flare::diag
