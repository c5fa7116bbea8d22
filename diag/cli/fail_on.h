// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diag/cli/command.h"
#include "flare/v1/query.pb.h"

// --fail-on: turns findings into an exit status for scripts.
namespace flare::cli {

// Adds the option: a list of hang, slow, error, regression, any, with commas between.
void AddFailOn(CLI::App* app, std::string* kinds);

// The kinds of such a list; absent when one of them does not exist.
std::optional<std::vector<std::string>> ParseKinds(const std::string& list);

// Whether the report has a finding of one of `kinds` (a list as above) that was certain: open, or
// open once and resolved since. Suspicions do not fail anything.
bool FailsOn(const v1::Report& report, const std::string& kinds);

}  // namespace flare::cli
