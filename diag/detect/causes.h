// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "diag/model/finding.h"

// What is fixed for each cause: the team that can mend it and the strength of its evidence. The ids
// are a contract; docs/findings.md explains each.
namespace flare::diag {

// A verdict with class, cause, team and severity filled in ("high" for hang and error, else
// "medium").
Verdict MakeVerdict(std::string_view finding_class, std::string_view cause);

// How much a cause explains: 0 nothing found, 1 a place where a rank seems to be held up, 2 a
// process stopped, dead or gone, 3 collectives that cannot match. Between looks at one trouble a
// weaker explanation never replaces a stronger one: disagreement kills processes, not the other way
// round.
int ExplanationStrength(std::string_view cause);

}  // namespace flare::diag
