// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/report_source.h"

#include <sys/stat.h>

#include <chrono>
#include <utility>

#include "diag/cli/query_client.h"
#include "diag/store/store.h"

namespace flare::cli {
namespace {

// A job that was last heard of longer ago than this, with no engine that knows it, is lost.
constexpr uint64_t kLostAfterNs = 60'000'000'000;

class FromEngine : public ReportSource {
 public:
  FromEngine(const std::string& address, std::string only_job)
      : client_(address), only_job_(std::move(only_job)) {}

  Result<std::vector<v1::JobSummary>> ListJobs() override {
    Result<v1::ListJobsResponse> response = client_.ListJobs();
    if (!response.ok()) return response.status();
    std::vector<v1::JobSummary> jobs;
    for (v1::JobSummary& job : *response->mutable_jobs()) {
      if (only_job_.empty() || job.job() == only_job_) jobs.push_back(std::move(job));
    }
    return jobs;
  }
  Result<v1::Report> GetReport(const std::string& job_id) override {
    return client_.GetReport(job_id);
  }
  Status Watch(const std::string& job_id, const std::function<bool(const v1::Report&)>& on_report,
               std::stop_token stop) override {
    return client_.Watch(job_id, on_report, stop);
  }
  Result<uint32_t> SwitchJob(const std::string& job_id, bool enabled) override {
    const Result<v1::SwitchJobResponse> response = client_.SwitchJob(job_id, enabled);
    if (!response.ok()) return response.status();
    return response->daemons();
  }
  bool refused() const override { return client_.refused(); }

 private:
  QueryClient client_;
  std::string only_job_;
};

uint64_t NowUnixNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

// The file keeps the last state it was told; of a job nobody watches any more that is no news.
void CorrectState(v1::JobSummary* job) {
  const bool unfinished = job->state() == "running" || job->state() == "stalled";
  if (unfinished && job->last_seen_unix_ns() + kLostAfterNs < NowUnixNs()) job->set_state("lost");
}

class FromStore : public ReportSource {
 public:
  explicit FromStore(const std::string& folder) : path_(folder + "/flare.db") {}

  Result<std::vector<v1::JobSummary>> ListJobs() override {
    struct stat info {};
    if (stat(path_.c_str(), &info) != 0) return std::vector<v1::JobSummary>();
    Result<diag::Store*> store = Open();
    if (!store.ok()) return store.status();
    Result<v1::ListJobsResponse> response = (*store)->ListJobs();
    if (!response.ok()) return response.status();
    std::vector<v1::JobSummary> jobs(response->jobs().begin(), response->jobs().end());
    for (v1::JobSummary& job : jobs) CorrectState(&job);
    return jobs;
  }
  Result<v1::Report> GetReport(const std::string& job_id) override {
    Result<diag::Store*> store = Open();
    if (!store.ok()) return store.status();
    Result<v1::Report> report = (*store)->LoadReport(job_id);
    if (report.ok()) CorrectState(report->mutable_job());
    return report;
  }
  Status Watch(const std::string& job_id, const std::function<bool(const v1::Report&)>& on_report,
               std::stop_token) override {
    const Result<v1::Report> report = GetReport(job_id);
    if (!report.ok()) return report.status();
    on_report(*report);  // nothing will change: no engine runs
    return Status::Ok();
  }
  Result<uint32_t> SwitchJob(const std::string&, bool) override {
    return Status::Error("no engine runs for this job, so nobody can be told");
  }

 private:
  Result<diag::Store*> Open() {
    if (store_ == nullptr) {
      auto opened = diag::Store::Open(path_, diag::OpenMode::kReadOnly);
      if (!opened.ok()) return opened.status();
      store_ = std::move(opened).value();
    }
    return store_.get();
  }

  std::string path_;
  std::unique_ptr<diag::Store> store_;
};

}  // namespace

std::unique_ptr<ReportSource> EngineSource(const std::string& address, std::string only_job) {
  return std::make_unique<FromEngine>(address, std::move(only_job));
}

std::unique_ptr<ReportSource> StoreSource(const std::string& folder) {
  return std::make_unique<FromStore>(folder);
}

}  // namespace flare::cli
