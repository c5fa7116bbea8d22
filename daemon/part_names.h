// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <string>

#include "daemon/segment_reader.h"
#include "flare/v1/event.pb.h"

// Words for the numbers in a segment's header.
namespace flare::daemon {

// "ring_full", ...; "unknown" for reasons we do not know.
const char* DropReasonName(DropReason reason);
// "3.11.2", empty for 0.
std::string PythonVersionText(uint32_t version_hex);
// Parts that are not idle, and "recording" "off" when the hooks are switched off.
void AddParts(const SegmentFacts& facts, google::protobuf::RepeatedPtrField<v1::PartStatus>* out);

}  // namespace flare::daemon
