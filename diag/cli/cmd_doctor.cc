// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "diag/cli/command.h"
#include "diag/cli/doctor_check.h"
#include "diag/cli/source_options.h"
#include "diag/cli/terminal.h"
#include "diag/report/plain_text.h"
#include "diag/report/report_json.h"

namespace flare::cli {
namespace {

constexpr size_t kIndent = 9;  // "warning  "

std::string CheckJsonText(const std::vector<Check>& checks) {
  nlohmann::ordered_json json;
  json["schema"] = "flare.doctor.v1";
  json["checks"] = nlohmann::ordered_json::array();
  for (const Check& check : checks) {
    nlohmann::ordered_json entry;
    entry["name"] = check.name;
    entry["level"] = CheckLevelName(check.level);
    entry["text"] = check.text;
    entry["remedy"] = check.remedy;
    json["checks"].push_back(entry);
  }
  return diag::JsonText(json, 2) + "\n";
}

std::string Lines(const std::string& head, const std::string& text, size_t columns) {
  std::string out;
  std::string start = head;
  start.resize(std::max(kIndent, start.size()), ' ');
  for (const std::string& line : diag::Wrap(diag::Printable(text), columns - kIndent)) {
    out += start + line + "\n";
    start.assign(kIndent, ' ');
  }
  return out;
}

std::string CheckText(const std::vector<Check>& checks, const diag::TextOptions& options) {
  static constexpr const char* kColors[] = {"\x1b[32m", "", "\x1b[33m", "\x1b[1;31m"};
  const size_t columns = std::max<size_t>(options.columns, 40);
  std::string out;
  for (const Check& check : checks) {
    const std::string name = CheckLevelName(check.level);
    std::string lines = Lines(name, check.text, columns);
    if (options.color) {
      lines.replace(0, name.size(), kColors[static_cast<int>(check.level)] + name + "\x1b[0m");
    }
    out += lines;
    if (!check.remedy.empty()) out += Lines("", "-> " + check.remedy, columns);
  }
  return out;
}

int Doctor(const SourceOptions& sources, int pid, bool json) {
  const std::vector<Check> checks = pid > 0 ? CheckProcess(pid) : CheckMachine(sources);
  const std::string text =
      json ? CheckJsonText(checks) : CheckText(checks, TextOptionsFor(STDOUT_FILENO));
  if (!WriteText(STDOUT_FILENO, text)) return kExitError;
  const bool problem = std::any_of(checks.begin(), checks.end(), [](const Check& check) {
    return check.level == CheckLevel::kProblem;
  });
  return problem ? kExitError : kExitOk;
}

}  // namespace

Command AddDoctor(CLI::App* root, const CommandLine*) {
  CLI::App* app =
      AddSubcommand(root, "doctor", "Say why processes are traced or not, and what to do about it",
                    {"flare doctor            # this machine, this user, this environment",
                     "flare doctor 4711       # why process 4711 is traced or not",
                     "flare doctor --json | jq '.checks[] | select(.level == \"problem\")'"});
  auto sources = std::make_shared<SourceOptions>();
  auto pid = std::make_shared<int>(0);
  auto json = std::make_shared<bool>(false);
  AddSourceOptions(app, sources.get());
  app->add_option("PID", *pid, "A process; default: check the machine")->check(CLI::PositiveNumber);
  app->add_flag("--json", *json, "Print JSON");
  return {app, [sources, pid, json] { return Doctor(*sources, *pid, *json); }};
}

}  // namespace flare::cli
