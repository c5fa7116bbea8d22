// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "diag/engine/group_commit.h"
#include "diag/engine/job_table.h"
#include "diag/store/store.h"
#include "flare/v1/query.pb.h"

// The one thread that owns all jobs. Others send it tasks; nobody else touches a job, so there is
// no lock for a detector to hold while a daemon waits.
//
// Tasks run in the order they came. Every `tick_ms` the detectors look at all jobs, and right after
// the tasks when a process has just stopped or died. Post() never waits. Who posts on behalf of an
// outsider bounds what is under way (ingest_service.cc).
namespace flare::diag {

// Takes reports of one job as they change. Called on the loop's thread; must not wait.
class ReportWatcher {
 public:
  virtual ~ReportWatcher() = default;
  // False when nobody listens any more.
  virtual bool Take(std::shared_ptr<const v1::Report> report) = 0;
};

class EngineLoop {
 public:
  // What a task may use; valid while it runs.
  struct Context {
    JobTable& jobs;
    Store& reader;  // what is on disk
    GroupCommit& commit;
    uint64_t now_unix_ns;
  };
  using Task = std::function<void(Context&)>;

  EngineLoop(std::string owner, std::unique_ptr<Store> reader, std::unique_ptr<GroupCommit> commit,
             uint32_t tick_ms, std::function<bool(const std::string&)> owner_is_gone);
  ~EngineLoop();  // Stop()

  // Continues unfinished jobs whose engine is gone. Before Start().
  Status AdoptUnfinishedJobs();
  void Start();
  // Runs the tasks that are there, commits, ends. Later tasks are dropped.
  void Stop();

  void Post(Task task);

  // From a task: sends the report of the job now, whenever it changes (at most five times a second)
  // and at least every `heartbeat_ms`. A job that is in the store only has a report that stays.
  void Watch(JobKey job, uint32_t heartbeat_ms, std::shared_ptr<ReportWatcher> watcher,
             std::shared_ptr<const v1::Report> stored = nullptr);

  TableCounters table_counters() const;
  CommitCounters commit_counters() const { return commit_->counters(); }

 private:
  class Archive;
  struct Subscription {
    JobKey job;
    uint64_t heartbeat_ns;
    std::shared_ptr<ReportWatcher> watcher;
    std::shared_ptr<const v1::Report> report;  // sent last
    uint64_t sent_ns = 0;
    uint64_t sent_revision = 0;
  };

  void Run();
  void Look(uint64_t now_unix_ns);
  void SendReports(uint64_t now_unix_ns);

  const std::string owner_;
  const std::function<bool(const std::string&)> owner_is_gone_;
  const uint64_t tick_ns_;
  // Closed last: only a writer can fold the log into the database.
  const std::unique_ptr<GroupCommit> commit_;
  const std::unique_ptr<Store> reader_;  // loop's thread only
  const std::unique_ptr<JobArchive> archive_;
  JobTable jobs_;  // loop's thread only, as are the next two
  std::vector<Subscription> subscriptions_;
  uint64_t next_forget_ns_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Task> tasks_;
  TableCounters counters_;  // copy for other threads
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace flare::diag
