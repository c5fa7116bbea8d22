// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "flare/v1/query.pb.h"
#include "libflare/core/status.h"

// Where a command gets its facts: an engine that runs, or the file that one has left.
namespace flare::cli {

class ReportSource {
 public:
  virtual ~ReportSource() = default;
  virtual Result<std::vector<v1::JobSummary>> ListJobs() = 0;
  virtual Result<v1::Report> GetReport(const std::string& job_id) = 0;
  // Calls `on_report` with the report now and at each change until it returns false or `stop`.
  virtual Status Watch(const std::string& job_id,
                       const std::function<bool(const v1::Report&)>& on_report,
                       std::stop_token stop) = 0;
  // The kill switch. How many daemons were told.
  virtual Result<uint32_t> SwitchJob(const std::string& job_id, bool enabled) = 0;
  // The last failure was a refusal for want of credentials.
  virtual bool refused() const { return false; }
};

// An engine at `address`. With `only_job`, an engine that answers for that job alone.
std::unique_ptr<ReportSource> EngineSource(const std::string& address, std::string only_job = "");

// The database that an engine keeps in `folder`, read only.
std::unique_ptr<ReportSource> StoreSource(const std::string& folder);

}  // namespace flare::cli
