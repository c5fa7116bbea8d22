// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/fail_on.h"

#include <algorithm>

namespace flare::cli {

void AddFailOn(CLI::App* app, std::vector<std::string>* kinds) {
  app->add_option(
         "--fail-on", *kinds,
         "Exit with 3 on such a finding, open or resolved: hang, slow, error, regression, any")
      ->type_name("KIND,...")
      ->delimiter(',')
      ->expected(1)
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"hang", "slow", "error", "regression", "any"}));
}

bool FailsOn(const v1::Report& report, const std::vector<std::string>& kinds) {
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
