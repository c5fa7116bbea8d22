// SPDX-License-Identifier: Apache-2.0
#include "diag/store/schema.h"

#include <string>

namespace flare::diag {
namespace {

// `jobs.key` and not `jobs.job` identifies a job: the same identity ("localhost:29500") comes again
// when a person starts the next run. Steps are ordered by step before rank: ranks advance together,
// so inserts append to the end of the tree and old steps go away as one range.
constexpr char kVersion1[] = R"sql(
CREATE TABLE jobs(
  key INTEGER PRIMARY KEY,
  job TEXT NOT NULL,
  name TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  world_size INTEGER NOT NULL,
  state TEXT NOT NULL,
  exit_status INTEGER NOT NULL,
  first_seen_unix_ns INTEGER NOT NULL,
  last_seen_unix_ns INTEGER NOT NULL,
  ended_unix_ns INTEGER NOT NULL,
  hooks_enabled INTEGER NOT NULL,
  owner TEXT NOT NULL,
  ranks_seen INTEGER NOT NULL,
  ranks_alive INTEGER NOT NULL,
  steps INTEGER NOT NULL,
  step_seconds_median REAL NOT NULL,
  framework TEXT NOT NULL,
  nodes TEXT NOT NULL
);
CREATE INDEX jobs_by_identity ON jobs(job);
CREATE TABLE ranks(
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  source INTEGER NOT NULL,
  node TEXT NOT NULL,
  pid INTEGER NOT NULL,
  hello BLOB NOT NULL,
  summary BLOB NOT NULL,
  PRIMARY KEY(job, attempt, rank)
) WITHOUT ROWID;
CREATE INDEX ranks_by_source ON ranks(source);
CREATE TABLE steps(
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  step INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  source INTEGER NOT NULL,
  start_unix_ns INTEGER NOT NULL,
  duration_ns INTEGER NOT NULL,
  communication_ns INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY(job, attempt, step, rank, source)
) WITHOUT ROWID;
CREATE TABLE findings(
  job INTEGER NOT NULL,
  id TEXT NOT NULL,
  class TEXT NOT NULL,
  cause TEXT NOT NULL,
  team TEXT NOT NULL,
  state TEXT NOT NULL,
  severity TEXT NOT NULL,
  confidence REAL NOT NULL,
  conclusive INTEGER NOT NULL,
  since_unix_ns INTEGER NOT NULL,
  open_after_unix_ns INTEGER NOT NULL,
  first_seen_unix_ns INTEGER NOT NULL,
  last_seen_unix_ns INTEGER NOT NULL,
  lost_share REAL NOT NULL,
  gpu_hours_lost REAL NOT NULL,
  summary TEXT NOT NULL,
  action TEXT NOT NULL,
  details TEXT NOT NULL,
  PRIMARY KEY(job, id)
) WITHOUT ROWID;
CREATE TABLE daemons(
  daemon_id TEXT PRIMARY KEY,
  node TEXT NOT NULL,
  last_sequence INTEGER NOT NULL,
  last_seen_unix_ns INTEGER NOT NULL
) WITHOUT ROWID;
)sql";

constexpr char kVersion2[] = R"sql(
ALTER TABLE jobs ADD COLUMN notes TEXT NOT NULL DEFAULT '';
ALTER TABLE ranks ADD COLUMN profile BLOB NOT NULL DEFAULT x'';
)sql";

constexpr const char* kMigrations[] = {kVersion1, kVersion2};

Result<int64_t> CheckedVersion(Database& database, int64_t wanted) {
  const Result<int64_t> version = database.Integer("PRAGMA user_version");
  if (!version.ok()) return version.status();
  const Result<int64_t> application = database.Integer("PRAGMA application_id");
  if (!application.ok()) return application.status();
  const Result<int64_t> tables = database.Integer("SELECT count(*) FROM sqlite_master");
  if (!tables.ok()) return tables.status();
  if (*application != kApplicationId && (*tables != 0 || *version != 0)) {
    return Status::Error("database " + database.path() +
                         ": belongs to another program; choose another state directory");
  }
  if (*version > wanted) {
    return Status::Error("database " + database.path() + ": written by a newer FLARE (schema " +
                         std::to_string(*version) + ", this program knows " +
                         std::to_string(wanted) +
                         "); use that version, or another state directory");
  }
  return *version;
}

}  // namespace

std::span<const char* const> Migrations() { return kMigrations; }

Status CheckWritable(Database& database, std::span<const char* const> migrations) {
  const Result<int64_t> version = CheckedVersion(database, static_cast<int64_t>(migrations.size()));
  return version.ok() ? Status::Ok() : version.status();
}

Status Migrate(Database& database, std::span<const char* const> migrations) {
  const int64_t wanted = static_cast<int64_t>(migrations.size());
  const Result<int64_t> version = CheckedVersion(database, wanted);
  if (!version.ok()) return version.status();
  for (int64_t v = *version; v < wanted; ++v) {
    const Status done =
        database.Execute("BEGIN IMMEDIATE;" + std::string(migrations[static_cast<size_t>(v)]) +
                         "PRAGMA application_id = " + std::to_string(kApplicationId) +
                         ";PRAGMA user_version = " + std::to_string(v + 1) + ";COMMIT;");
    if (!done.ok()) {
      (void)database.Execute("ROLLBACK");
      return done.Prefixed("migration to schema " + std::to_string(v + 1));
    }
  }
  return Status::Ok();
}

Status CheckVersion(Database& database, std::span<const char* const> migrations) {
  const int64_t wanted = static_cast<int64_t>(migrations.size());
  const Result<int64_t> version = CheckedVersion(database, wanted);
  if (!version.ok()) return version.status();
  if (*version < wanted) {
    return Status::Error("database " + database.path() + ": written by an older FLARE (schema " +
                         std::to_string(*version) + ", this program reads " +
                         std::to_string(wanted) + "); start flare-engine once to bring it up");
  }
  return Status::Ok();
}

}  // namespace flare::diag
