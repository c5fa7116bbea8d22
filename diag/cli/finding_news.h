// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "flare/v1/query.pb.h"

// What has changed in the findings of a job since the last look, so that each change is told once.
namespace flare::cli {

class FindingNews {
 public:
  // Findings that are new or in another state than at the last look, in the order of the report.
  // One that comes and goes between two looks (first seen as withdrawn) is no news.
  std::vector<v1::Finding> Update(const v1::Report& report);

 private:
  std::map<std::string, std::string> states_;  // by finding id
};

}  // namespace flare::cli
