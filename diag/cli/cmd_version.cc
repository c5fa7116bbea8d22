// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <memory>

#include "diag/cli/command.h"
#include "diag/cli/terminal.h"
#include "diag/report/report_json.h"
#include "libflare/core/segment_layout.h"

namespace flare::cli {

Command AddVersion(CLI::App* root, const CommandLine*) {
  CLI::App* app = AddSubcommand(root, "version", "Print the version",
                                {"flare version", "flare version --json | jq -r .version"});
  auto json = std::make_shared<bool>(false);
  app->add_flag("--json", *json, "Print JSON");
  return {app, [json] {
            nlohmann::ordered_json document;
            document["schema"] = "flare.version.v1";
            document["version"] = FLARE_VERSION;
            document["segment_layout"] = kSegmentVersion;
            const std::string text = *json ? diag::JsonText(document, 2) + "\n"
                                           : std::string("flare " FLARE_VERSION "\n");
            return WriteText(STDOUT_FILENO, text) ? kExitOk : kExitError;
          }};
}

}  // namespace flare::cli
