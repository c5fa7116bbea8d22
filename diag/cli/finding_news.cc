// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/finding_news.h"

namespace flare::cli {

std::vector<v1::Finding> FindingNews::Update(const v1::Report& report) {
  std::vector<v1::Finding> news;
  for (const v1::Finding& finding : report.findings()) {
    const auto [known, first] = states_.try_emplace(finding.id(), "");
    if (known->second == finding.state()) continue;
    known->second = finding.state();
    if (!first || finding.state() != "withdrawn") news.push_back(finding);
  }
  return news;
}

}  // namespace flare::cli
