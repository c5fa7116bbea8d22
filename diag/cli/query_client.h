// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "flare/v1/query.grpc.pb.h"
#include "libflare/core/status.h"

// The query service of one engine. Each call has a deadline. Any thread.
namespace flare::cli {

class QueryClient {
 public:
  explicit QueryClient(const std::string& address);

  Result<v1::ListJobsResponse> ListJobs();
  Result<v1::Report> GetReport(const std::string& job);  // id or name; empty = the newest
  Result<v1::Report> EndJob(const std::string& job, int exit_status, int timeout_ms);
  Result<v1::SwitchJobResponse> SwitchJob(const std::string& job, bool enabled);
  // Of an engine that is too old to know the question, versions are empty.
  Result<v1::ListVersionsResponse> ListVersions(int timeout_ms);

  // Calls `on_report` with the report now and at each change until it returns false, `stop` is
  // requested or the engine goes. Ok in the first two cases.
  Status Watch(const std::string& job, const std::function<bool(const v1::Report&)>& on_report,
               std::stop_token stop);

  // The last failure was a refusal: wrong or no credentials.
  bool refused() const { return refused_; }
  // The last failure said that the engine does not know the job.
  bool unknown_job() const { return unknown_job_; }

 private:
  Status Explain(const grpc::Status& status);

  std::string address_;
  std::unique_ptr<v1::Query::Stub> stub_;
  bool refused_ = false;
  bool unknown_job_ = false;
};

}  // namespace flare::cli
