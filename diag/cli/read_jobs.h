// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "diag/cli/command.h"
#include "diag/import/join.h"
#include "libflare/core/status.h"

// Files and folders of other tools, named on the command line, as jobs.
namespace flare::cli {

struct FileOptions {
  std::vector<std::string> paths;
  std::string as;
  std::string name;
};

// Adds PATH..., --as and --name; `options` must outlive the parse.
void AddFileOptions(CLI::App* app, FileOptions* options);

struct ReadJobs {
  std::vector<import::JoinedJob> jobs;  // named; job.id is still empty
  size_t errors = 0;                    // named files that could not be used; said already
};

// Reads, with progress on stderr when it is a terminal, and says what is wrong there. On failure
// `*exit_code` is what to exit with: nothing could be read, or the user interrupted.
Result<ReadJobs> ReadJobsAloud(const FileOptions& options, int* exit_code);

// A name for what these paths hold: of the file, of the folder, or of the folder around the files.
std::string NameOfPaths(const std::vector<std::string>& paths);

}  // namespace flare::cli
