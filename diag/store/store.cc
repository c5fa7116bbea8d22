// SPDX-License-Identifier: Apache-2.0
#include "diag/store/store.h"

#include <random>

#include "diag/store/finding_details.h"
#include "diag/store/schema.h"

namespace flare::diag {
namespace {

// FULL: the log is on the disk when a commit returns. A write-ahead log of 16 MB is folded back
// into the file in one go, so that the cost falls on few commits.
constexpr char kWriterSettings[] =
    "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=4000; PRAGMA journal_size_limit=67108864;"
    "PRAGMA cache_size=-65536;";

}  // namespace

JobKey NewJobKey(uint64_t now_unix_ns) {
  constexpr uint64_t kChance = 1'000'000;
  const uint64_t millisecond = now_unix_ns - now_unix_ns % kChance;
  return JobKey(static_cast<int64_t>(millisecond + std::random_device{}() % kChance));
}

Result<std::unique_ptr<Store>> Store::Open(const std::string& path, OpenMode mode) {
  Result<std::unique_ptr<Database>> database = Database::Open(path, mode);
  if (!database.ok()) return database.status();
  Database& db = **database;
  if (mode == OpenMode::kReadOnly) {
    if (Status s = CheckVersion(db, Migrations()); !s.ok()) return s;
  } else {
    // The version is looked at before anything is changed: switching to a log is already a change.
    if (Status s = CheckWritable(db, Migrations()); !s.ok()) return s;
    if (Status s = db.Execute("PRAGMA journal_mode=WAL"); !s.ok()) return s;
    if (Status s = db.Execute(kWriterSettings); !s.ok()) return s;
    if (Status s = Migrate(db, Migrations()); !s.ok()) return s;
  }
  return std::unique_ptr<Store>(new Store(std::move(*database)));
}

Result<Statement*> Store::Cached(const char* sql) {
  const auto found = statements_.find(sql);
  if (found != statements_.end()) return &found->second;
  Result<Statement> statement = database_->Prepare(sql);
  if (!statement.ok()) return statement.status();
  return &statements_.emplace(sql, std::move(*statement)).first->second;
}

Result<ApplyCounts> Store::Apply(const StoreWrites& writes, const StepStream& more_steps) {
  if (Status s = database_->Execute("BEGIN IMMEDIATE"); !s.ok()) return s;
  Result<ApplyCounts> counts = WriteAll(writes, more_steps);
  if (counts.ok()) {
    const Status committed = database_->Execute("COMMIT");
    if (committed.ok()) return counts;
    counts = committed;
  }
  (void)database_->Execute("ROLLBACK");
  return counts;
}

Result<ApplyCounts> Store::WriteAll(const StoreWrites& writes, const StepStream& more_steps) {
  ApplyCounts counts;
  const auto write_step = [&](const StoredStep& step) -> Status {
    const Result<bool> is_new = WriteStep(step);
    if (!is_new.ok()) return is_new.status();
    ++(*is_new ? counts.steps_stored : counts.steps_repeated);
    return Status::Ok();
  };
  for (const auto& [key, job] : writes.jobs) {
    if (Status s = WriteJob(job); !s.ok()) return s;
  }
  for (const auto& [key, rank] : writes.ranks) {
    if (Status s = WriteRank(rank); !s.ok()) return s;
  }
  for (const StoredStep& step : writes.steps) {
    if (Status s = write_step(step); !s.ok()) return s;
  }
  for (StoredStep step; more_steps && more_steps(&step);) {
    if (Status s = write_step(step); !s.ok()) return s;
  }
  for (const auto& [key, finding] : writes.findings) {
    if (Status s = WriteFinding(key.first, finding); !s.ok()) return s;
  }
  for (const auto& [id, daemon] : writes.daemons) {
    if (Status s = WriteDaemon(id, daemon); !s.ok()) return s;
  }
  return counts;
}

Status Store::WriteJob(const StoredJob& job) {
  static constexpr char kSql[] =
      "INSERT OR REPLACE INTO jobs VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
  const Result<Statement*> cached = Cached(kSql);
  if (!cached.ok()) return cached.status();
  Statement& s = **cached;
  const v1::JobSummary& m = job.summary;
  std::string nodes;  // one a line; message_check.cc takes line breaks out of names
  for (const std::string& n : m.nodes()) nodes += n + "\n";
  std::string notes;
  for (const std::string& n : job.notes) notes += n + "\n";
  s.Bind(0, job.key.value);
  s.BindText(1, m.job());
  s.BindText(2, m.name());
  s.Bind(3, m.attempt());
  s.Bind(4, m.world_size());
  s.BindText(5, m.state());
  s.Bind(6, m.exit_status());
  s.Bind(7, m.first_seen_unix_ns());
  s.Bind(8, m.last_seen_unix_ns());
  s.Bind(9, job.ended_unix_ns);
  s.Bind(10, int32_t{job.hooks_enabled});
  s.BindText(11, job.owner);
  s.Bind(12, m.ranks_seen());
  s.Bind(13, m.ranks_alive());
  s.Bind(14, m.steps());
  s.Bind(15, m.step_seconds_median());
  s.BindText(16, m.framework());
  s.BindText(17, nodes);
  s.BindText(18, notes);
  return s.Run();
}

Status Store::WriteRank(const StoredRank& rank) {
  static constexpr char kSql[] = "INSERT OR REPLACE INTO ranks VALUES(?,?,?,?,?,?,?,?,?)";
  const Result<Statement*> cached = Cached(kSql);
  if (!cached.ok()) return cached.status();
  Statement& s = **cached;
  const std::string hello = rank.hello.SerializeAsString();
  const std::string summary = rank.summary.SerializeAsString();
  const std::string profile =
      rank.profile.has_device() ? rank.profile.SerializeAsString() : std::string();
  s.Bind(0, rank.job.value);
  s.Bind(1, rank.attempt);
  s.Bind(2, rank.hello.rank());
  s.Bind(3, rank.hello.source());
  s.BindText(4, rank.hello.node());
  s.Bind(5, int64_t{rank.hello.pid()});
  s.BindBlob(6, hello);
  s.BindBlob(7, summary);
  s.BindBlob(8, profile);
  return s.Run();
}

Result<bool> Store::WriteStep(const StoredStep& step) {
  static constexpr char kSql[] = "INSERT OR IGNORE INTO steps VALUES(?,?,?,?,?,?,?,?,?)";
  const Result<Statement*> cached = Cached(kSql);
  if (!cached.ok()) return cached.status();
  Statement& s = **cached;
  s.Bind(0, step.job.value);
  s.Bind(1, step.attempt);
  s.Bind(2, step.step);
  s.Bind(3, step.rank);
  s.Bind(4, step.source);
  s.Bind(5, step.start_unix_ns);
  s.Bind(6, step.duration_ns);
  s.Bind(7, step.communication_ns);
  s.BindBlob(8, step.message);
  if (Status done = s.Run(); !done.ok()) return done;
  return database_->rows_changed() == 1;
}

Status Store::WriteFinding(JobKey job, const Finding& finding) {
  static constexpr char kSql[] =
      "INSERT OR REPLACE INTO findings VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
  const Result<Statement*> cached = Cached(kSql);
  if (!cached.ok()) return cached.status();
  Statement& s = **cached;
  const Verdict& v = finding.verdict;
  const std::string details = DetailsToJson(finding);
  s.Bind(0, job.value);
  s.BindText(1, finding.id);
  s.BindText(2, v.finding_class);
  s.BindText(3, v.cause);
  s.BindText(4, v.team);
  s.BindText(5, StateName(finding.state));
  s.BindText(6, v.severity);
  s.Bind(7, v.confidence);
  s.Bind(8, int32_t{v.conclusive});
  s.Bind(9, v.since_unix_ns);
  s.Bind(10, v.open_after_unix_ns);
  s.Bind(11, finding.first_seen_unix_ns);
  s.Bind(12, finding.last_seen_unix_ns);
  s.Bind(13, v.lost_share);
  s.Bind(14, finding.gpu_hours_lost);
  s.BindText(15, v.summary);
  s.BindText(16, v.action);
  s.BindText(17, details);
  return s.Run();
}

Status Store::WriteDaemon(const std::string& daemon_id, const StoredDaemon& daemon) {
  static constexpr char kSql[] =
      "INSERT INTO daemons VALUES(?,?,?,?) ON CONFLICT DO UPDATE SET node = excluded.node, "
      "last_sequence = max(last_sequence, excluded.last_sequence), "
      "last_seen_unix_ns = excluded.last_seen_unix_ns";
  const Result<Statement*> cached = Cached(kSql);
  if (!cached.ok()) return cached.status();
  Statement& s = **cached;
  s.BindText(0, daemon_id);
  s.BindText(1, daemon.node);
  s.Bind(2, daemon.last_sequence);
  s.Bind(3, daemon.last_seen_unix_ns);
  return s.Run();
}

}  // namespace flare::diag
