// SPDX-License-Identifier: Apache-2.0
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "diag/cli/command.h"
#include "diag/cli/command_process.h"
#include "diag/cli/command_supervisor.h"
#include "diag/cli/crash_guard.h"
#include "diag/cli/job_name.h"
#include "diag/cli/parse_error.h"
#include "diag/cli/private_dir.h"
#include "diag/cli/report_file.h"
#include "diag/cli/run_console.h"
#include "diag/cli/run_observer.h"
#include "diag/cli/run_plan.h"
#include "diag/report/plain_text.h"

namespace flare::cli {
namespace {

int CannotExecute(const std::string& program, int error) {
  const std::string name = diag::Printable(program, 200);
  if (error == ENOENT) {
    return Fail(name + ": command not found", kExitNotFound);
  }
  return Fail(name + ": cannot be executed: " + std::strerror(error), kExitNotExecutable);
}

int RunObserved(const RunOptions& options, RunPlan plan, pid_t command, SignalWitness* witness,
                ReportFile* report_file, RunConsole* console) {
  const RunTraces traces = TracesOf(plan);
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  InstallCrashGuard(wake_fd);
  auto observer =
      std::make_unique<RunObserver>(options, std::move(plan), report_file, console, wake_fd);
  const int exit_status =
      CommandSupervisor(command, witness, observer.get(), console, wake_fd).Run();
  if (ThreadHasCrashed()) {
    console->Print(
        "flare: FLARE itself failed and stopped watching; the command was not touched\n");
  }
  if (!observer->done() || ThreadHasCrashed()) {
    console->HideProgress();
    RemoveTraces(traces);
    _exit(exit_status);  // not waiting for threads that hang or have crashed
  }
  observer.reset();
  RemoveTraces(traces);
  return exit_status;
}

int RunUnobserved(pid_t command, SignalWitness* witness, const v1::Report& report,
                  ReportFile* report_file, RunConsole* console) {
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const int exit_status = CommandSupervisor(command, witness, nullptr, console, wake_fd).Run();
  v1::Report ended = report;
  MarkEnded(&ended, exit_status);
  if (const Status status = report_file->Write(ended); !status.ok()) {
    console->Print("flare: cannot write the report: " + status.message() + "\n");
  }
  return exit_status;
}

int Run(RunOptions options) {
  if (options.command.empty()) {
    return Fail("run: no command given; try: flare run -- torchrun train.py", kExitUsage);
  }
  const std::string name = options.name.empty() ? NameOfCommand(options.command) : options.name;
  const std::string job = ChooseJobId(name);
  RunConsole console(options.quiet, !options.no_progress);
  ReportFile report_file(options.report_json);
  const v1::Report nothing_yet = EmptyReport(job, name);
  if (const Status status = report_file.Write(nothing_yet); !status.ok()) {
    console.Print("flare: cannot write the report: " + status.message() + "\n");
  }
  Result<RunPlan> plan = PlanRun(options, job, name);
  if (!plan.ok()) {
    console.Print("flare: running without FLARE: " + plan.status().message() + "\n");
  }
  const Result<StartedCommand> command =
      StartCommand(options.command, plan.ok() ? plan->variables : std::vector<Variable>());
  if (!command.ok()) return Fail("run: " + command.status().message());
  if (command->exec_errno != 0) {
    if (plan.ok()) RemoveTraces(TracesOf(*plan));
    return CannotExecute(options.command[0], command->exec_errno);
  }
  Result<SignalWitness> started = SignalWitness::Start();
  SignalWitness* witness = started.ok() ? &*started : nullptr;  // without it we guess
  if (!plan.ok()) {
    return RunUnobserved(command->pid, witness, nothing_yet, &report_file, &console);
  }
  return RunObserved(options, std::move(plan).value(), command->pid, witness, &report_file,
                     &console);
}

// What of our own words was no option of ours and cannot be the command; empty when all is well.
std::string Misplaced(const CLI::App& app, const CommandLine& line) {
  const std::vector<std::string> words = app.remaining();
  if (words.empty()) return "";
  if (words[0].starts_with("-")) return UnknownOptionMessage(app, words[0]);
  return line.separated ? "run: '" + diag::Printable(words[0], 100) + "' is before --" : "";
}

class RunHelp : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "\nUsage: flare run [OPTIONS] -- COMMAND [ARGUMENTS]\n";
  }
};

}  // namespace

Command AddRun(CLI::App* root, const CommandLine* line) {
  CLI::App* app = AddSubcommand(
      root, "run", "Run a training job and say what is wrong with it while it runs",
      {"flare run -- torchrun --nproc-per-node 4 train.py",
       "flare run --name nightly --report-json report.json -- srun python train.py",
       "flare run --kill-on-hang -- python train.py   # end the job when it certainly hangs",
       "flare run --engine engine-host:7707 -- torchrun train.py"});
  app->formatter(std::make_shared<RunHelp>());
  app->footer(
      "The command after -- runs as without FLARE: same output, signals and exit status.\n\n" +
      app->get_footer());
  app->prefix_command();
  auto options = std::make_shared<RunOptions>();
  options->state_dir = DefaultStateDir();
  app->add_option("--name", options->name, "Name of the job; default: that of the script")
      ->type_name("NAME");
  app->add_option("--state-dir,--state", options->state_dir, "Folder where FLARE keeps its reports")
      ->type_name("DIR")
      ->capture_default_str();
  app->add_option("--engine", options->engine, "Report to this engine instead of one of its own")
      ->type_name("HOST:PORT")
      ->envname("FLARE_ENGINE");
  app->add_option("--report-json", options->report_json,
                  "Keep the report in this file, replaced whole at each change")
      ->type_name("FILE");
  app->add_flag("--kill-on-hang", options->kill_on_hang,
                "End the command when a hang is certain: SIGTERM, after 5 s SIGKILL");
  app->add_flag("-q,--quiet", options->quiet, "Say nothing; see --report-json and 'flare report'");
  app->add_flag("--no-progress", options->no_progress, "No live line on a terminal");
  return {app, [app, line, options] {
            const std::string misplaced = Misplaced(*app, *line);
            if (!misplaced.empty()) {
              return Fail(misplaced + "\nflare: see 'flare run --help'", kExitUsage);
            }
            options->command = line->separated ? line->other : app->remaining();
            return Run(*options);
          }};
}

}  // namespace flare::cli
