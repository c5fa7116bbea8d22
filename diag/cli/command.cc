// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/command.h"

#include <unistd.h>

#include "diag/cli/terminal.h"

namespace flare::cli {

CLI::App* AddSubcommand(CLI::App* root, const std::string& name, const std::string& summary,
                        const std::vector<std::string>& examples) {
  CLI::App* app = root->add_subcommand(name, summary);
  std::string footer = "Examples:";
  for (const std::string& example : examples) footer += "\n  " + example;
  app->footer(footer);
  return app;
}

int Fail(const std::string& message, int code) {
  WriteText(STDERR_FILENO, "flare: " + message + "\n");
  return code;
}

}  // namespace flare::cli
