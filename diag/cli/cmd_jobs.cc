// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <memory>

#include "diag/cli/command.h"
#include "diag/cli/source_options.h"
#include "diag/cli/terminal.h"
#include "diag/report/report_json.h"
#include "diag/report/report_text.h"

namespace flare::cli {
namespace {

constexpr size_t kPipedColumns = 1000;  // a line is a job, whole, for grep and awk

int Jobs(const SourceOptions& sources, bool json) {
  int exit_code = kExitOk;
  const Result<KnownJobs> known = FindJobsAloud(sources, &exit_code);
  if (!known.ok()) return exit_code;
  std::vector<v1::JobSummary> jobs;
  for (const KnownJob& job : known->jobs) jobs.push_back(job.summary);
  diag::TextOptions options = TextOptionsFor(STDOUT_FILENO);
  if (isatty(STDOUT_FILENO) == 0) options.columns = kPipedColumns;
  const std::string text =
      json ? diag::JsonText(diag::JobsJson(jobs), 2) + "\n" : diag::RenderJobs(jobs, options);
  if (!WriteText(STDOUT_FILENO, text)) return kExitError;
  return known->complaints.empty() ? kExitOk : kExitError;
}

}  // namespace

Command AddJobs(CLI::App* root, const CommandLine*) {
  CLI::App* app = AddSubcommand(root, "jobs", "List the jobs that FLARE has seen, newest first",
                                {"flare jobs", "flare jobs --json | jq -r '.jobs[0].id'",
                                 "flare jobs --engine engine-host:7707"});
  auto sources = std::make_shared<SourceOptions>();
  auto json = std::make_shared<bool>(false);
  AddSourceOptions(app, sources.get());
  app->add_flag("--json", *json, "Print JSON");
  return {app, [sources, json] { return Jobs(*sources, *json); }};
}

}  // namespace flare::cli
