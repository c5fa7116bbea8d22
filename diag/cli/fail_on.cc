// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/fail_on.h"

#include <algorithm>
#include <sstream>

namespace flare::cli {
namespace {

constexpr const char* kKinds[] = {"hang", "slow", "error", "regression", "any"};

}  // namespace

// One word, split by us: as a list of words the option would take the job that follows it.
void AddFailOn(CLI::App* app, std::string* kinds) {
  const auto check = [](const std::string& list) -> std::string {
    return ParseKinds(list) ? "" : list + " is not a list of hang, slow, error, regression, any";
  };
  app->add_option("--fail-on", *kinds, "Exit with 3 on such a finding, open or resolved")
      ->type_name("KIND,...")
      ->check(CLI::Validator(check, "{hang,slow,error,regression,any}"));
}

std::optional<std::vector<std::string>> ParseKinds(const std::string& list) {
  std::vector<std::string> kinds;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    if (std::find(std::begin(kKinds), std::end(kKinds), word) == std::end(kKinds)) {
      return std::nullopt;
    }
    kinds.push_back(word);
  }
  return kinds;
}

bool FailsOn(const v1::Report& report, const std::string& list) {
  const std::vector<std::string> kinds = ParseKinds(list).value_or(std::vector<std::string>());
  return std::any_of(
      report.findings().begin(), report.findings().end(), [&](const v1::Finding& finding) {
        if (finding.state() != "open" && finding.state() != "resolved") return false;
        const std::string kind = finding.class_() == "fail_slow" ? "slow" : finding.class_();
        return std::any_of(kinds.begin(), kinds.end(), [&](const std::string& wanted) {
          return wanted == "any" || wanted == kind;
        });
      });
}

}  // namespace flare::cli
