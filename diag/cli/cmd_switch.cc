// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <memory>

#include "diag/cli/command.h"
#include "diag/cli/source_options.h"
#include "diag/cli/terminal.h"
#include "diag/report/plain_text.h"
#include "diag/report/report_json.h"

namespace flare::cli {
namespace {

struct SwitchArguments {
  SourceOptions sources;
  std::string job;
  std::string position;
  bool json = false;
};

int Switch(const SwitchArguments& arguments) {
  int exit_code = kExitOk;
  const Result<KnownJobs> known = FindJobsAloud(arguments.sources, &exit_code);
  if (!known.ok()) return exit_code;
  const Result<KnownJob> job = ChooseJob(*known, arguments.job);
  if (!job.ok()) return Fail(job.status().message());
  const std::string id = job->summary.job();
  const bool on = arguments.position == "on";
  const Result<uint32_t> daemons = job->source->SwitchJob(id, on);
  if (!daemons.ok()) {
    return Fail(daemons.status().message(), job->source->refused() ? kExitRefused : kExitError);
  }
  if (*daemons == 0) return Fail("no daemon is connected, so no rank was told");
  nlohmann::ordered_json json;
  json["schema"] = "flare.switch.v1";
  json["job"] = id;
  json["enabled"] = on;
  json["daemons"] = *daemons;
  const std::string words = "Tracing of " + diag::Printable(id, 200) + " is switched " +
                            arguments.position + "; " + diag::Counted(*daemons, "daemon") +
                            " told.\n";
  const std::string text = arguments.json ? diag::JsonText(json, 2) + "\n" : words;
  return WriteText(STDOUT_FILENO, text) ? kExitOk : kExitError;
}

}  // namespace

Command AddSwitch(CLI::App* root, const CommandLine*) {
  CLI::App* app = AddSubcommand(
      root, "switch", "Turn tracing of a running job off or on, without a restart",
      {"flare switch nightly off   # every hook becomes a plain forward within a step",
       "flare switch nightly on"});
  auto arguments = std::make_shared<SwitchArguments>();
  AddSourceOptions(app, &arguments->sources);
  app->add_option("JOB", arguments->job, "Job, by id or name")->required();
  app->add_option("POSITION", arguments->position, "on or off")
      ->required()
      ->check(CLI::IsMember({"on", "off"}));
  app->add_flag("--json", arguments->json, "Print JSON");
  return {app, [arguments] { return Switch(*arguments); }};
}

}  // namespace flare::cli
