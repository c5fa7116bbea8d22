// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "diag/model/finding.h"
#include "libflare/core/status.h"

// The lists of a finding (ranks, victims, nodes, links, evidence) as the JSON text of one column.
namespace flare::diag {

std::string DetailsToJson(const Verdict& verdict);
Status DetailsFromJson(const std::string& text, Verdict* verdict);

}  // namespace flare::diag
