// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "diag/cli/command.h"
#include "flare/v1/query.pb.h"

// --fail-on: turns findings into an exit status for scripts.
namespace flare::cli {

// Adds the option: a list of hang, slow, error, regression, any.
void AddFailOn(CLI::App* app, std::vector<std::string>* kinds);

// Whether the report has a finding of one of `kinds` that was certain: open, or open once and
// resolved since. Suspicions do not fail anything.
bool FailsOn(const v1::Report& report, const std::vector<std::string>& kinds);

}  // namespace flare::cli
