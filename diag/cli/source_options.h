// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "diag/cli/command.h"
#include "diag/cli/job_choice.h"

// The options by which every reading command finds its facts.
namespace flare::cli {

// Adds --state-dir and --engine; `options` must outlive the parse.
void AddSourceOptions(CLI::App* app, SourceOptions* options);

// FindJobs, with its complaints said on stderr. On failure `*exit_code` is what to exit with.
Result<KnownJobs> FindJobsAloud(const SourceOptions& options, int* exit_code);

}  // namespace flare::cli
