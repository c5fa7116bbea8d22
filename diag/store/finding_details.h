// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "diag/model/finding.h"
#include "libflare/core/status.h"

// What of a finding has no column of its own (ranks, victims, nodes, links, evidence, how it ended),
// as the JSON text of one.
namespace flare::diag {

std::string DetailsToJson(const Finding& finding);
Status DetailsFromJson(const std::string& text, Finding* finding);

}  // namespace flare::diag
