// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <memory>

#include "diag/cli/command.h"
#include "diag/cli/fail_on.h"
#include "diag/cli/source_options.h"
#include "diag/cli/terminal.h"
#include "diag/report/report_json.h"
#include "diag/report/report_text.h"

namespace flare::cli {
namespace {

struct ReportArguments {
  SourceOptions sources;
  std::string job;
  std::string fail_on;
  bool json = false;
};

int ShowReport(const ReportArguments& arguments) {
  int exit_code = kExitOk;
  const Result<KnownJobs> known = FindJobsAloud(arguments.sources, &exit_code);
  if (!known.ok()) return exit_code;
  const Result<KnownJob> job = ChooseJob(*known, arguments.job);
  if (!job.ok()) return Fail(job.status().message());
  const Result<v1::Report> report = job->source->GetReport(job->summary.job());
  if (!report.ok()) {
    return Fail(report.status().message(), job->source->refused() ? kExitRefused : kExitError);
  }
  const std::string text = arguments.json
                               ? diag::JsonText(diag::ReportJson(*report), 2) + "\n"
                               : diag::RenderReport(*report, TextOptionsFor(STDOUT_FILENO));
  if (!WriteText(STDOUT_FILENO, text)) return kExitError;
  return FailsOn(*report, arguments.fail_on) ? kExitFindings : kExitOk;
}

}  // namespace

Command AddReport(CLI::App* root, const CommandLine*) {
  CLI::App* app = AddSubcommand(
      root, "report", "Show what is wrong with a job, who it concerns and what to do",
      {"flare report                       # of the newest job",
       "flare report nightly               # by name, id, or the beginning of either",
       "flare report --json | jq '.findings[] | {cause, ranks, action}'",
       "flare report --fail-on hang,error  # exit status 3 when there was such a finding"});
  auto arguments = std::make_shared<ReportArguments>();
  AddSourceOptions(app, &arguments->sources);
  app->add_option("JOB", arguments->job, "Job, by id or name; default: the newest");
  app->add_flag("--json", arguments->json, "Print JSON, as docs/report.schema.json describes it");
  AddFailOn(app, &arguments->fail_on);
  return {app, [arguments] { return ShowReport(*arguments); }};
}

}  // namespace flare::cli
