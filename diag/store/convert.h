// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "diag/model/finding.h"
#include "diag/model/job.h"
#include "flare/v1/event.pb.h"
#include "flare/v1/query.pb.h"

// The one place where messages become the values of diag/model and back.
//
// Messages come from other processes: an enum value we do not know becomes the unknown value, never
// an undefined one. Sizes and times are checked by the engine before (diag/engine/message_check.h).
// Pure functions, safe from any thread.
namespace flare::diag {

RankStep StepFromProto(const v1::RankStep& message);
v1::RankStep StepToProto(const RankStep& step);
DeviceStep DeviceFromProto(const v1::DeviceStep& message);
v1::DeviceStep DeviceToProto(const DeviceStep& device);
QuantileSketch SketchFromProto(const v1::QuantileSketch& message);
v1::QuantileSketch SketchToProto(const QuantileSketch& sketch);
RankState StateFromProto(const v1::RankState& message);
// Identity only: state and steps of the record are empty.
RankRecord RankFromProto(const v1::RankHello& message);
v1::RankHello RankToProto(const RankRecord& rank);  // without job, attempt and world size

v1::Finding FindingToProto(const Finding& finding);
Finding FindingFromProto(const v1::Finding& message);
FindingState FindingStateFromName(const std::string& name);

}  // namespace flare::diag
