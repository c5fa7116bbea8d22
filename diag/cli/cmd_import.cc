// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <memory>
#include <random>
#include <utility>

#include "diag/cli/command.h"
#include "diag/cli/fail_on.h"
#include "diag/cli/job_name.h"
#include "diag/cli/private_dir.h"
#include "diag/cli/read_jobs.h"
#include "diag/cli/terminal.h"
#include "diag/engine/imported_job.h"
#include "diag/engine/state_dir.h"
#include "diag/report/plain_text.h"
#include "diag/report/report_json.h"
#include "diag/report/report_text.h"
#include "libflare/core/clock.h"

namespace flare::cli {
namespace {

struct ImportArguments {
  FileOptions files;
  std::string state_dir;
  std::string fail_on;
  bool json = false;
};

// Opened only when everything has been read: an import that fails or is interrupted leaves nothing.
// Engines that run in the same folder go on: the database takes one writer after the other.
Status Save(const std::vector<std::unique_ptr<diag::ImportedJob>>& jobs,
            const std::string& state_dir) {
  const Result<std::unique_ptr<diag::StateDir>> folder = diag::StateDir::Open(state_dir, false);
  if (!folder.ok()) return folder.status();
  const Result<std::unique_ptr<diag::Store>> store =
      diag::Store::Open((*folder)->database(), diag::OpenMode::kReadWrite);
  if (!store.ok()) return store.status();
  return diag::SaveAll(jobs, store->get());
}

int Import(const ImportArguments& arguments) {
  int exit_code = kExitOk;
  Result<ReadJobs> read = ReadJobsAloud(arguments.files, &exit_code);
  if (!read.ok()) return exit_code;
  if (read->errors > 0) return Fail("nothing was stored; name only files that can be imported");
  std::vector<std::unique_ptr<diag::ImportedJob>> jobs;
  const uint64_t now_unix_ns = RealtimeNs();
  for (import::JoinedJob& joined : read->jobs) {
    joined.job.id = MakeJobId(joined.job.name, now_unix_ns, std::random_device{}());
    jobs.push_back(std::make_unique<diag::ImportedJob>(
        joined.job, diag::ImportFacts{joined.now_unix_ns, joined.absolute_time, now_unix_ns,
                                      std::move(joined.notes)}));
  }
  const Status saved = Save(jobs, arguments.state_dir);
  if (!saved.ok()) return Fail(saved.message());
  std::string text;
  bool fails = false;
  for (const auto& job : jobs) {
    const v1::Report& report = job->report();
    fails = fails || FailsOn(report, arguments.fail_on);
    if (arguments.json) {
      text += diag::JsonText(diag::ReportJson(report), 2) + "\n";
    } else {
      text += diag::RenderReport(report, TextOptionsFor(STDOUT_FILENO)) +
              "\nStored; 'flare report " + diag::Printable(report.job().job(), 100) +
              "' shows it again.\n" + (job == jobs.back() ? "" : "\n");
    }
  }
  if (!WriteText(STDOUT_FILENO, text)) return kExitError;
  return fails ? kExitFindings : kExitOk;
}

}  // namespace

Command AddImport(CLI::App* root, const CommandLine*) {
  CLI::App* app = AddSubcommand(
      root, "import", "Keep a job from traces, dumps and logs of other tools, and diagnose it",
      {"flare import traces/                  # then: flare jobs, flare report",
       "flare import --name before-upgrade trace-*.json.gz",
       "flare import --as kineto odd-name.bin --json"});
  auto arguments = std::make_shared<ImportArguments>();
  arguments->state_dir = DefaultStateDir();
  AddFileOptions(app, &arguments->files);
  app->add_option("--state", arguments->state_dir, "Folder where FLARE keeps its reports")
      ->type_name("DIR")
      ->capture_default_str();
  app->add_flag("--json", arguments->json,
                "Print JSON, as docs/report.schema.json describes it; one document for each job");
  AddFailOn(app, &arguments->fail_on);
  return {app, [arguments] { return Import(*arguments); }};
}

}  // namespace flare::cli
