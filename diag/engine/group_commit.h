// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "diag/store/store.h"

// The only writer of the store: gathers what comes, commits it in one transaction, then tells those
// who wait for it.
//
// An idle writer commits at once; a busy one every `interval_ms`, so that the cost of reaching the
// disk is shared. When a commit fails (disk full, damaged file) nothing is told, nothing is lost:
// the same writes are tried again every second, and the streams wait for their acknowledgements.
// Between commits it removes old steps, a few at a time. Add() may be called from any thread and
// never waits for the disk; what is held is bounded by what the streams may have unacknowledged.
namespace flare::diag {

struct CommitCounters {
  uint64_t commits = 0;
  uint64_t failed_commits = 0;
  uint64_t steps_stored = 0;
  uint64_t steps_repeated = 0;
  uint64_t steps_trimmed = 0;
  uint64_t commit_ns_total = 0;
  uint64_t commit_ns_longest = 0;
};

class GroupCommit {
 public:
  GroupCommit(std::unique_ptr<Store> store, uint32_t interval_ms, Retention retention);
  ~GroupCommit();  // Stop()

  // `on_disk` runs on the writer's thread after the commit; never when that does not come about.
  void Add(StoreWrites writes, std::function<void()> on_disk = nullptr);
  // Commits what is there, once, and ends the thread. Later writes are dropped.
  void Stop();
  CommitCounters counters() const;

 private:
  using Waiters = std::vector<std::function<void()>>;

  void Run();
  bool Commit(const StoreWrites& writes);
  void TrimIfIdle();

  const std::unique_ptr<Store> store_;  // writer's thread only
  const uint64_t interval_ns_;
  const Retention retention_;
  uint64_t next_trim_ns_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  StoreWrites pending_;
  Waiters waiters_;
  CommitCounters counters_;
  bool stopping_ = false;
  std::thread thread_;
};

// Adds `from` to `into`; of the same job, rank, finding or daemon the later one stays.
void MergeWrites(StoreWrites from, StoreWrites* into);

}  // namespace flare::diag
