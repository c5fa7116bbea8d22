// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

// A subcommand of `flare`: one file cmd_<name>.cc, one line in kCommands of main.cc.
namespace flare::cli {

// Exit statuses; `flare run` passes the command's through instead.
enum ExitCode : int {
  kExitOk = 0,
  kExitError = 1,
  kExitUsage = 2,
  kExitFindings = 3,  // only with --fail-on
  kExitRefused = 4,   // the engine wants credentials
  kExitNotExecutable = 126,
  kExitNotFound = 127,
  kExitInterrupted = 130,
};

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;  // called when the command line names `app`
};

// The words after "--", which belong to another program and are never ours to read.
struct CommandLine {
  std::vector<std::string> own;  // without the program's name
  std::vector<std::string> other;
  bool separated = false;  // there was a "--"
};

using AddCommand = Command (*)(CLI::App* root, const CommandLine* line);

Command AddRun(CLI::App* root, const CommandLine* line);
Command AddJobs(CLI::App* root, const CommandLine* line);
Command AddReport(CLI::App* root, const CommandLine* line);
Command AddWatch(CLI::App* root, const CommandLine* line);
Command AddDiagnose(CLI::App* root, const CommandLine* line);
Command AddImport(CLI::App* root, const CommandLine* line);
Command AddDoctor(CLI::App* root, const CommandLine* line);
Command AddSwitch(CLI::App* root, const CommandLine* line);
Command AddCompletion(CLI::App* root, const CommandLine* line);
Command AddVersion(CLI::App* root, const CommandLine* line);

// Adds a subcommand with its help: what it does, then examples, one a line.
CLI::App* AddSubcommand(CLI::App* root, const std::string& name, const std::string& summary,
                        const std::vector<std::string>& examples);

// Says an error on stderr in one line, as every command does, and returns `code`.
int Fail(const std::string& message, int code = kExitError);

}  // namespace flare::cli
