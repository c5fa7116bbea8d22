// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "diag/model/finding.h"
#include "diag/store/sqlite.h"
#include "flare/v1/event.pb.h"
#include "flare/v1/query.pb.h"
#include "libflare/core/ids.h"
#include "libflare/core/status.h"

// What outlives the engine: jobs, ranks, steps, findings, and how far each daemon has come.
//
// One SQLite file, write-ahead log, synchronous=FULL: when Apply() has returned Ok, everything in
// it survives a crash of the program and of the machine. One thread at a time per Store. Any number
// of read-only Stores may look at the file while one writes. A file that is damaged, newer, or not
// ours is refused in words and never changed.
namespace flare::diag {

// A job in the store. Its identity (v1::JobSummary.job) is no key: the next run may reuse it. Made
// by the engine from time and chance, so that engines that share a store never choose the same.
using JobKey = StrongId<struct JobKeyTag, int64_t>;

JobKey NewJobKey(uint64_t now_unix_ns);

inline constexpr uint64_t kLostAfterNs = 300'000'000'000;

// The state of a job that was read from files: over, and never "lost". Its `ended_unix_ns` is the
// time of the import.
inline constexpr char kImported[] = "imported";

struct StoredJob {
  JobKey key;
  // When read, open_findings is counted, and a job unheard of for kLostAfterNs is "lost".
  v1::JobSummary summary;
  uint64_t ended_unix_ns = 0;
  bool hooks_enabled = true;
  std::string owner;               // the engine that follows the job (diag/engine/state_dir.h)
  std::vector<std::string> notes;  // of an import; without line breaks
};

struct StoredRank {
  JobKey job;
  uint32_t attempt = 0;
  v1::RankHello hello;
  v1::RankSummary summary;
  v1::RankProfile profile;  // stored only with a device
};

// A v1::RankStep with what its source stands for. Stored once, however often it comes.
struct StoredStep {
  JobKey job;
  uint32_t attempt = 0;
  uint32_t rank = 0;
  uint64_t source = 0;
  uint64_t step = 0;
  uint64_t start_unix_ns = 0;
  uint64_t duration_ns = 0;
  uint64_t communication_ns = 0;
  std::string message;  // the v1::RankStep, serialised
};

// Which rank a traced process is.
struct SourcePlace {
  JobKey job;
  uint32_t attempt = 0;
  Rank rank;
};

struct StoredDaemon {
  std::string node;
  uint64_t last_sequence = 0;
  uint64_t last_seen_unix_ns = 0;
};

// One transaction. Later writes of the same job, rank, finding or daemon replace earlier ones.
struct StoreWrites {
  std::map<JobKey, StoredJob> jobs;
  std::map<std::pair<JobKey, uint32_t>, StoredRank> ranks;  // by job and rank
  std::vector<StoredStep> steps;
  std::map<std::pair<JobKey, std::string>, Finding> findings;  // by job and finding id
  std::map<std::string, StoredDaemon> daemons;                 // by daemon id

  bool empty() const {
    return jobs.empty() && ranks.empty() && steps.empty() && findings.empty() && daemons.empty();
  }
};

// More steps than memory should hold: fills the next one, false at the end.
using StepStream = std::function<bool(StoredStep*)>;

struct ApplyCounts {
  uint64_t steps_stored = 0;
  uint64_t steps_repeated = 0;  // were there already
};

// What a restarted engine needs of a job to go on.
struct JobMemory {
  StoredJob job;
  std::vector<StoredRank> ranks;  // of the current attempt
  std::vector<Finding> findings;
  std::vector<StoredStep> steps;  // the newest, oldest first
};

// Steps are removed when a rank has `steps_per_rank` newer ones, when their attempt is over by two,
// or when their job ended `ended_job_days` ago; those of an import only by the last. Jobs, ranks
// and findings stay.
struct Retention {
  uint64_t steps_per_rank = 2000;
  uint64_t ended_job_days = 30;
};

// The sentence for a job that is not there: names those that are.
std::string UnknownJob(const std::string& job, const v1::ListJobsResponse& known);

class Store {
 public:
  static Result<std::unique_ptr<Store>> Open(const std::string& path, OpenMode mode);

  // Newest first (an import by the time of the import), without those of `except`.
  Result<v1::ListJobsResponse> ListJobs(const std::set<JobKey>& except = {});
  // By job identity, else by name; the newest that fits. Empty: the newest of all.
  Result<std::optional<JobKey>> FindJob(const std::string& job);
  Result<v1::Report> LoadReport(JobKey key);
  // FindJob and LoadReport; the error for an unknown job names those that exist.
  Result<v1::Report> LoadReport(const std::string& job);

  // Jobs that have not ended, with their owners.
  Result<std::vector<StoredJob>> UnfinishedJobs();
  Result<JobMemory> LoadJob(JobKey key, uint64_t steps_per_rank);
  Result<std::optional<SourcePlace>> FindSource(SourceId source);
  Result<std::optional<StoredDaemon>> FindDaemon(const std::string& daemon_id);
  Result<uint64_t> CountSteps();

  // All or nothing. On an error nothing of `writes` is stored; the same writes may be tried again.
  Result<ApplyCounts> Apply(const StoreWrites& writes, const StepStream& more_steps = nullptr);
  // Removes at most `limit` steps that `retention` no longer keeps; how many it removed. Fewer than
  // `limit` means that nothing is left to remove.
  Result<uint64_t> Trim(const Retention& retention, uint64_t limit, uint64_t now_unix_ns);

 private:
  explicit Store(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  Result<Statement*> Cached(const char* sql);
  Status WriteJob(const StoredJob& job);
  Status WriteRank(const StoredRank& rank);
  Result<bool> WriteStep(const StoredStep& step);
  Status WriteFinding(JobKey job, const Finding& finding);
  Status WriteDaemon(const std::string& daemon_id, const StoredDaemon& daemon);
  Result<ApplyCounts> WriteAll(const StoreWrites& writes, const StepStream& more_steps);
  Result<StoredJob> ReadJob(JobKey key);
  Result<std::vector<StoredRank>> ReadRanks(JobKey key, uint32_t attempt);
  Result<std::vector<Finding>> ReadFindings(const StoredJob& job);
  Result<std::vector<StoredStep>> ReadNewestSteps(const StoredJob& job, uint64_t steps_per_rank);
  Result<uint64_t> TrimJob(JobKey key, const Retention& retention, uint64_t limit,
                           uint64_t now_unix_ns);

  std::unique_ptr<Database> database_;
  std::map<const char*, Statement> statements_;  // by the address of their text
};

}  // namespace flare::diag
