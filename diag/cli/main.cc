// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <iostream>

#include "diag/cli/command.h"
#include "diag/cli/parse_error.h"

namespace flare::cli {
namespace {

constexpr AddCommand kCommands[] = {
    AddRun,    AddJobs,   AddReport, AddWatch,      AddDiagnose,
    AddImport, AddDoctor, AddSwitch, AddCompletion, AddVersion,
};

CommandLine SplitAtSeparator(int argc, char** argv) {
  CommandLine line;
  for (int i = 1; i < argc; ++i) {
    if (!line.separated && std::string(argv[i]) == "--") {
      line.separated = true;
    } else {
      (line.separated ? line.other : line.own).emplace_back(argv[i]);
    }
  }
  return line;
}

// A standard descriptor that is closed would be given to a socket or database of ours, and a
// message for stderr would end in it. The command still finds it closed.
void OccupyStandardDescriptors() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) {
    if (fcntl(fd, F_GETFD) >= 0) {
      ++fd;
    } else {
      fd = open("/dev/null", O_RDWR | O_CLOEXEC) < 0 ? -1 : fd;
    }
  }
}

int Main(int argc, char** argv) {
  OccupyStandardDescriptors();
  const CommandLine line = SplitAtSeparator(argc, argv);
  CLI::App app("FLARE finds what is wrong with a distributed training job while it runs.", "flare");
  app.set_version_flag("--version", std::string("flare " FLARE_VERSION));
  app.require_subcommand(0, 1);
  app.footer(
      "Examples:\n"
      "  flare run -- torchrun --nproc-per-node 4 train.py\n"
      "  flare report\n"
      "  flare diagnose traces/\n"
      "  flare doctor");
  std::vector<Command> commands;
  for (const AddCommand add : kCommands) commands.push_back(add(&app, &line));
  try {
    app.parse(std::vector<std::string>(line.own.rbegin(), line.own.rend()));
  } catch (const CLI::ParseError& error) {
    return ExplainParseError(app, line, error);
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const bool takes_words = command.app->get_name() == "run";
    if (line.separated && !takes_words) {
      return Fail(command.app->get_name() + ": takes no command after --", kExitUsage);
    }
    return command.run();
  }
  std::cerr << app.help();
  return kExitUsage;
}

}  // namespace
}  // namespace flare::cli

int main(int argc, char** argv) { return flare::cli::Main(argc, argv); }
