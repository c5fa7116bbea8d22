// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "flare/v1/query.pb.h"
#include "nlohmann/json.hpp"

// Reports as JSON, in the form that docs/report.schema.json publishes.
//
// Names and order of keys are a contract with scripts: fields may be added, never renamed. A value
// that is not known is null, a time is RFC 3339 in UTC with milliseconds. Pure, any thread.
namespace flare::diag {

nlohmann::ordered_json FindingJson(const v1::Finding& finding);
nlohmann::ordered_json JobJson(const v1::JobSummary& job);

// {"schema":"flare.report.v1","job":{},"findings":[],"ranks":[],"profiles":[],"notes":[]}
nlohmann::ordered_json ReportJson(const v1::Report& report);

// {"schema":"flare.jobs.v1","jobs":[]}
nlohmann::ordered_json JobsJson(const std::vector<v1::JobSummary>& jobs);

// The document as text that is always valid UTF-8: broken bytes become U+FFFD. `indent` < 0 puts it
// on one line.
std::string JsonText(const nlohmann::ordered_json& document, int indent);

}  // namespace flare::diag
