// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "diag/engine/checked_message.h"
#include "diag/engine/daemon_link.h"
#include "diag/engine/live_job.h"
#include "diag/store/store.h"

// All jobs in the engine's memory, and which traced process belongs to which rank of which.
//
// Bounded: a job leaves memory some time after it ended or was last heard of, and one daemon may
// bring kMaxSourcesPerDaemon processes. Not thread-safe: belongs to the engine's loop.
namespace flare::diag {

inline constexpr size_t kMaxSourcesPerDaemon = 20'000;
inline constexpr uint64_t kForgetEndedAfterNs = 600'000'000'000;
inline constexpr uint64_t kForgetLostAfterNs = 900'000'000'000;

// Jobs that are not in memory. Called on the loop's thread.
class JobArchive {
 public:
  virtual ~JobArchive() = default;
  // The newest job with this identity, if this engine may follow it.
  virtual std::optional<JobMemory> LoadNewest(const std::string& identity) = 0;
  virtual std::optional<JobMemory> Load(JobKey key) = 0;
  virtual std::optional<SourcePlace> FindSource(SourceId source) = 0;
};

struct TableCounters {
  uint64_t steps = 0;  // taken from batches, repeated ones included
  uint64_t states = 0;
  uint64_t batches = 0;
  uint64_t batches_repeated = 0;  // their number had come before
  uint64_t rejected = 0;          // hellos, steps and states that were refused
  uint64_t unknown_sources = 0;   // of these: nobody has introduced the process
};

class JobTable {
 public:
  // `owner` is this engine, as jobs remember it. `archive` must outlive the table.
  JobTable(std::string owner, JobArchive* archive);

  // Continues a job of the store.
  LiveJob* Adopt(JobMemory memory);

  // The daemon with this id; made when it is new.
  std::shared_ptr<Daemon> FindOrAddDaemon(const std::string& id);

  // What must be on disk before the batch is acknowledged is added to `writes`.
  void TakeBatch(const std::shared_ptr<Daemon>& daemon, CheckedBatch batch, uint64_t now_unix_ns,
                 StoreWrites* writes);
  void TakeStates(const std::shared_ptr<Daemon>& daemon, CheckedStates states,
                  uint64_t now_unix_ns);

  // Looks at all jobs, or only at those where something just stopped or died.
  void Look(uint64_t now_unix_ns, StoreWrites* writes);
  void LookAtUrgent(uint64_t now_unix_ns, StoreWrites* writes);
  // Drops jobs that are over for long, except those in `keep`.
  void Forget(uint64_t now_unix_ns, const std::set<JobKey>& keep);

  LiveJob* Find(JobKey key);
  // By identity, else by name; the newest that fits. Empty: the newest of all.
  LiveJob* Find(const std::string& job);
  std::vector<const LiveJob*> Jobs() const;  // newest first
  std::vector<std::shared_ptr<const Daemon>> ConnectedDaemons() const;

  // Remembers the switch and tells the daemons that have ranks of the job; how many were told.
  uint32_t SwitchJob(LiveJob* job, bool enabled, StoreWrites* writes, uint64_t now_unix_ns);

  const TableCounters& counters() const { return counters_; }
  bool urgent() const { return !urgent_.empty(); }

 private:
  struct Source {
    JobKey job;
    LiveJob* live;
    uint32_t attempt;
    Rank rank;
    std::shared_ptr<Daemon> daemon;  // null: of an engine before this one
  };

  // Null when nobody has introduced the process. `lookups` is how often the archive may be asked.
  Source* FindSource(SourceId id, const Daemon& daemon, int* lookups);
  Source* FindArchivedSource(SourceId id);
  void TakeHello(const std::shared_ptr<Daemon>& daemon, const v1::RankHello& hello,
                 uint64_t now_unix_ns, std::set<LiveJob*>* touched);
  LiveJob* FindForHello(const v1::RankHello& hello, uint64_t now_unix_ns);
  LiveJob* AddJob(const v1::RankHello& hello, uint64_t now_unix_ns);
  void Bind(const std::shared_ptr<Daemon>& daemon, const v1::RankHello& hello, LiveJob* job);
  void CountRejected(const Daemon& daemon, uint32_t rejected, const std::string& reason);
  JobKey NewKey(uint64_t now_unix_ns);

  const std::string owner_;
  JobArchive* const archive_;
  std::map<JobKey, std::unique_ptr<LiveJob>> jobs_;
  std::map<std::string, JobKey> newest_;  // by identity
  std::unordered_map<SourceId, Source> sources_;
  std::map<std::string, std::shared_ptr<Daemon>> daemons_;
  std::set<JobKey> urgent_;
  TableCounters counters_;
  JobKey last_key_;
};

}  // namespace flare::diag
