// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <memory>
#include <optional>

#include "diag/cli/command.h"
#include "diag/cli/output_file.h"
#include "diag/cli/private_dir.h"
#include "diag/cli/terminal.h"
#include "diag/engine/state_dir.h"
#include "diag/store/store.h"
#include "diag/trace/job_trace.h"

namespace flare::cli {
namespace {

struct TraceArguments {
  std::string state_dir = DefaultStateDir();
  std::string job;
  std::string format = "chrome";
  std::string output;
  uint64_t steps = 2000;
};

Result<diag::JobMemory> LoadJob(const TraceArguments& arguments) {
  const std::string path = arguments.state_dir + "/flare.db";
  const auto store = diag::Store::Open(path, diag::OpenMode::kReadOnly);
  if (!store.ok()) return store.status();
  const Result<std::optional<diag::JobKey>> key = (*store)->FindJob(arguments.job);
  if (!key.ok()) return key.status();
  if (!key->has_value()) {
    const Result<v1::ListJobsResponse> known = (*store)->ListJobs();
    if (!known.ok()) return known.status();
    return Status::Error(diag::UnknownJob(arguments.job, *known));
  }
  return (*store)->LoadJob(**key, arguments.steps);
}

std::string NameOfOutput(const TraceArguments& arguments, const diag::JobMemory& job) {
  if (!arguments.output.empty()) return arguments.output;
  std::string name = job.job.summary.job();
  for (char& c : name) {
    if (c == '/' || static_cast<unsigned char>(c) < 0x20) c = '_';
  }
  return name + (arguments.format == "chrome" ? ".trace.json" : ".perfetto-trace");
}

int WriteTrace(const TraceArguments& arguments) {
  const Result<diag::JobMemory> job = LoadJob(arguments);
  if (!job.ok()) return Fail(job.status().message());
  const std::string path = NameOfOutput(arguments, *job);
  if (path == "-" && arguments.format == "perfetto" && isatty(STDOUT_FILENO)) {
    return Fail("a Perfetto trace is binary; send it to a file (-o FILE)", kExitUsage);
  }
  OutputFile file(path);
  const Status opened = file.Open();
  if (!opened.ok()) return Fail(opened.message());
  const diag::TraceSink sink = [&file](std::string_view bytes) { return file.Write(bytes); };
  const std::unique_ptr<diag::TraceWriter> writer =
      arguments.format == "chrome" ? diag::NewChromeWriter(sink) : diag::NewPerfettoWriter(sink);
  diag::WriteJobTrace(*job, writer.get());
  const Status written = file.Complete();
  if (!written.ok()) return Fail(written.message());
  if (path == "-") return kExitOk;
  const std::string said = path + ": " + std::to_string(job->ranks.size()) + " ranks, " +
                           std::to_string(job->steps.size()) +
                           " steps; open it in https://ui.perfetto.dev\n";
  return WriteText(STDOUT_FILENO, said) ? kExitOk : kExitError;
}

}  // namespace

Command AddTrace(CLI::App* root, const CommandLine*) {
  CLI::App* app = AddSubcommand(
      root, "trace", "Write a job that FLARE has kept as a trace for a viewer",
      {"flare trace                            # the newest job, as Chrome JSON",
       "flare trace nightly -o nightly.json    # opens in Perfetto and chrome://tracing",
       "flare trace nightly --format perfetto  # a third of the size",
       "flare import nightly.json              # reads it again, with the same numbers"});
  auto arguments = std::make_shared<TraceArguments>();
  app->add_option("JOB", arguments->job, "Job, by id or name; default: the newest");
  app->add_option("--state,--state-dir", arguments->state_dir,
                  "Folder where FLARE keeps its reports")
      ->type_name("DIR")
      ->capture_default_str();
  app->add_option("--format", arguments->format, "chrome (JSON) or perfetto (protobuf)")
      ->check(CLI::IsMember({"chrome", "perfetto"}))
      ->capture_default_str();
  app->add_option("-o,--output", arguments->output,
                  "File to write, - for standard output; default: named after the job")
      ->type_name("FILE");
  app->add_option("--steps", arguments->steps, "Newest steps of each rank")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000}))
      ->capture_default_str();
  return {app, [arguments] { return WriteTrace(*arguments); }};
}

}  // namespace flare::cli
