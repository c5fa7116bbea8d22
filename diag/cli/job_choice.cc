// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/job_choice.h"

#include <algorithm>
#include <set>

#include "diag/cli/endpoint.h"
#include "diag/cli/suggestion.h"
#include "diag/report/plain_text.h"

namespace flare::cli {
namespace {

constexpr int kProbeTimeoutMs = 500;
constexpr size_t kListedJobs = 5;

// Adds what `source` knows and better sources do not.
Status AddJobs(std::unique_ptr<ReportSource> source, std::set<std::string>* seen,
               KnownJobs* known) {
  Result<std::vector<v1::JobSummary>> jobs = source->ListJobs();
  if (!jobs.ok()) {
    known->refused = known->refused || source->refused();
    return jobs.status();
  }
  for (v1::JobSummary& job : *jobs) {
    if (seen->insert(job.job()).second) known->jobs.push_back({std::move(job), source.get()});
  }
  known->sources.push_back(std::move(source));
  return Status::Ok();
}

// When a person got to know of the job: to them an import is as new as a run.
uint64_t ListedAt(const v1::JobSummary& job) {
  return job.imported_unix_ns() != 0 ? job.imported_unix_ns() : job.first_seen_unix_ns();
}

std::string ListOf(const KnownJobs& known) {
  std::string list;
  for (size_t i = 0; i < known.jobs.size() && i < kListedJobs; ++i) {
    list += (i > 0 ? ", " : "") + diag::Printable(known.jobs[i].summary.job(), 100);
  }
  return list;
}

}  // namespace

Result<KnownJobs> FindJobs(const SourceOptions& options) {
  KnownJobs known;
  std::set<std::string> seen;
  if (!options.engine.empty()) {
    const Status status = AddJobs(EngineSource(options.engine), &seen, &known);
    if (!status.ok() && !known.refused) return status;
    if (!status.ok()) known.complaints.push_back(status.message());
    return known;
  }
  const auto add = [&](std::unique_ptr<ReportSource> source) {
    const Status status = AddJobs(std::move(source), &seen, &known);
    if (!status.ok()) known.complaints.push_back(status.message());
  };
  for (const Endpoint& endpoint : RunningEndpoints(options.state_dir)) {
    if (Accepts(endpoint.engine, kProbeTimeoutMs)) add(EngineSource(endpoint.engine, endpoint.job));
  }
  const std::optional<std::string> advertised = AdvertisedEngine(options.state_dir);
  if (advertised && Accepts(*advertised, kProbeTimeoutMs)) add(EngineSource(*advertised));
  add(StoreSource(options.state_dir));
  std::stable_sort(known.jobs.begin(), known.jobs.end(), [](const KnownJob& a, const KnownJob& b) {
    return ListedAt(a.summary) > ListedAt(b.summary);
  });
  return known;
}

Result<KnownJob> ChooseJob(const KnownJobs& known, const std::string& wanted) {
  if (known.jobs.empty()) {
    return Status::Error("no jobs seen yet; start one with 'flare run -- COMMAND'");
  }
  if (wanted.empty()) return known.jobs.front();
  const auto find = [&](auto matches) -> const KnownJob* {
    const auto it = std::find_if(known.jobs.begin(), known.jobs.end(),
                                 [&](const KnownJob& job) { return matches(job.summary); });
    return it == known.jobs.end() ? nullptr : &*it;
  };
  const KnownJob* found = find([&](const auto& job) { return job.job() == wanted; });
  if (found == nullptr) found = find([&](const auto& job) { return job.name() == wanted; });
  if (found == nullptr) {
    found = find([&](const auto& job) {
      return job.job().starts_with(wanted) || job.name().starts_with(wanted);
    });
  }
  if (found != nullptr) return *found;
  std::vector<std::string> names;
  for (const KnownJob& job : known.jobs) {
    names.push_back(job.summary.job());
    names.push_back(job.summary.name());
  }
  std::string message = "no job '" + diag::Printable(wanted, 100) + "'";
  const std::string near = Nearest(wanted, names);
  message += near.empty() ? "; known: " + ListOf(known)
                          : "; did you mean '" + diag::Printable(near, 100) + "'?";
  return Status::Error(message);
}

}  // namespace flare::cli
