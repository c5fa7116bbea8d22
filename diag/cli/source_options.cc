// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/source_options.h"

#include "diag/cli/private_dir.h"

namespace flare::cli {

void AddSourceOptions(CLI::App* app, SourceOptions* options) {
  options->state_dir = DefaultStateDir();
  app->add_option("--state-dir,--state", options->state_dir, "Folder where FLARE keeps its reports")
      ->type_name("DIR")
      ->capture_default_str();
  app->add_option("--engine", options->engine, "Ask this engine and nothing else")
      ->type_name("HOST:PORT")
      ->envname("FLARE_ENGINE");
}

Result<KnownJobs> FindJobsAloud(const SourceOptions& options, int* exit_code) {
  Result<KnownJobs> known = FindJobs(options);
  *exit_code = kExitError;
  if (!known.ok()) {
    Fail(known.status().message());
    return known;
  }
  for (const std::string& complaint : known->complaints) Fail(complaint);
  if (known->refused && known->jobs.empty()) {
    *exit_code = kExitRefused;
    return Status::Error("refused");
  }
  return known;
}

}  // namespace flare::cli
