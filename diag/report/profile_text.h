// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "diag/report/report_text.h"
#include "flare/v1/query.pb.h"

// What the devices of the ranks did, as a table: all ranks of a small job; of a large one the
// culprits and those that are furthest from the middle.
namespace flare::diag {

std::string ProfilesText(const v1::Report& report, const TextOptions& options);

}  // namespace flare::diag
