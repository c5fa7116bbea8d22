// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <memory>

#include "diag/cli/command.h"
#include "diag/cli/fail_on.h"
#include "diag/cli/job_name.h"
#include "diag/cli/read_jobs.h"
#include "diag/cli/terminal.h"
#include "diag/engine/imported_job.h"
#include "diag/report/report_json.h"
#include "diag/report/report_text.h"
#include "libflare/core/clock.h"

namespace flare::cli {
namespace {

struct DiagnoseArguments {
  FileOptions files;
  std::string fail_on;
  bool json = false;
};

int Diagnose(const DiagnoseArguments& arguments) {
  int exit_code = kExitOk;
  Result<ReadJobs> read = ReadJobsAloud(arguments.files, &exit_code);
  if (!read.ok()) return exit_code;
  bool fails = false;
  bool first = true;
  for (import::JoinedJob& joined : read->jobs) {
    joined.job.id = PlainId(joined.job.name);
    const diag::ImportedJob job(joined.job, {joined.now_unix_ns, joined.absolute_time, RealtimeNs(),
                                             std::move(joined.notes)});
    std::string text = !first && !arguments.json ? "\n" : "";
    first = false;
    text += arguments.json ? diag::JsonText(diag::ReportJson(job.report()), 2) + "\n"
                           : diag::RenderReport(job.report(), TextOptionsFor(STDOUT_FILENO));
    if (!WriteText(STDOUT_FILENO, text)) return kExitError;
    fails = fails || FailsOn(job.report(), arguments.fail_on);
  }
  if (read->errors > 0) return kExitError;
  return fails ? kExitFindings : kExitOk;
}

}  // namespace

Command AddDiagnose(CLI::App* root, const CommandLine*) {
  CLI::App* app = AddSubcommand(
      root, "diagnose", "Say what is wrong with a job from traces, dumps and logs of other tools",
      {"flare diagnose trace.json.gz               # a profile of PyTorch",
       "flare diagnose dumps/                      # a folder with the files of all ranks",
       "flare diagnose traces/ dmesg.log --json | jq '.findings[] | {cause, ranks, action}'",
       "flare diagnose --fail-on any nccl_trace_*  # exit status 3 when something is wrong"});
  auto arguments = std::make_shared<DiagnoseArguments>();
  AddFileOptions(app, &arguments->files);
  app->add_flag("--json", arguments->json,
                "Print JSON, as docs/report.schema.json describes it; one document for each job");
  AddFailOn(app, &arguments->fail_on);
  return {app, [arguments] { return Diagnose(*arguments); }};
}

}  // namespace flare::cli
