// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <memory>

#include "diag/cli/command.h"
#include "diag/cli/completion.h"
#include "diag/cli/terminal.h"

namespace flare::cli {

Command AddCompletion(CLI::App* root, const CommandLine*) {
  CLI::App* app =
      AddSubcommand(root, "completion", "Print a completion script for a shell",
                    {"source <(flare completion bash)", "flare completion zsh > ~/.zfunc/_flare",
                     "flare completion fish > ~/.config/fish/completions/flare.fish"});
  auto shell = std::make_shared<std::string>();
  app->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return {app, [root, shell] {
            const std::string text = *shell == "bash"  ? BashCompletion(*root)
                                     : *shell == "zsh" ? ZshCompletion(*root)
                                                       : FishCompletion(*root);
            return WriteText(STDOUT_FILENO, text) ? kExitOk : kExitError;
          }};
}

}  // namespace flare::cli
