// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/checked_message.h"

#include "diag/engine/message_check.h"
#include "diag/store/convert.h"

namespace flare::diag {
namespace {

template <typename Message>
bool Passes(const Status& status, Message* out) {
  if (status.ok()) return true;
  if (out->rejected++ == 0) out->first_rejection = status.message();
  return false;
}

}  // namespace

CheckedBatch CheckBatch(v1::Batch&& batch, uint64_t now_unix_ns) {
  CheckedBatch out;
  out.sequence = batch.sequence();
  for (v1::RankHello& hello : *batch.mutable_hellos()) {
    if (Passes(CheckRankHello(&hello, now_unix_ns), &out)) out.hellos.push_back(std::move(hello));
  }
  out.steps.reserve(static_cast<size_t>(batch.steps_size()));
  for (v1::RankStep& step : *batch.mutable_steps()) {
    if (!Passes(CheckStep(&step, now_unix_ns), &out)) continue;
    out.steps.push_back({SourceId(step.source()), StepFromProto(step), step.SerializeAsString()});
  }
  return out;
}

CheckedStates CheckStates(google::protobuf::RepeatedPtrField<v1::RankState>&& states,
                          uint64_t now_unix_ns) {
  CheckedStates out;
  out.states.reserve(static_cast<size_t>(states.size()));
  for (v1::RankState& state : states) {
    if (!Passes(CheckState(&state, now_unix_ns), &out)) continue;
    CheckedState checked{SourceId(state.source()), StateFromProto(state), {}};
    for (const v1::PartStatus& p : state.parts()) checked.parts.push_back({p.part(), p.state()});
    out.states.push_back(std::move(checked));
  }
  return out;
}

}  // namespace flare::diag
