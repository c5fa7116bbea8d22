// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diag/model/job.h"
#include "flare/v1/event.pb.h"

// Messages of a daemon after message_check, in the form the loop wants: the work of checking and
// converting is done by the thread of the stream, not by the one thread all jobs share.
namespace flare::diag {

struct CheckedStep {
  SourceId source;
  RankStep step;
  std::string message;  // the v1::RankStep, serialised
};

struct CheckedBatch {
  uint64_t sequence = 0;
  std::vector<v1::RankHello> hellos;
  std::vector<CheckedStep> steps;
  uint32_t rejected = 0;  // items that did not pass
  std::string first_rejection;
};

struct CheckedState {
  SourceId source;
  RankState state;
  std::vector<PartStatus> parts;
};

struct CheckedStates {
  std::vector<CheckedState> states;
  uint32_t rejected = 0;
  std::string first_rejection;
};

CheckedBatch CheckBatch(v1::Batch&& batch, uint64_t now_unix_ns);
CheckedStates CheckStates(google::protobuf::RepeatedPtrField<v1::RankState>&& states,
                          uint64_t now_unix_ns);

}  // namespace flare::diag
