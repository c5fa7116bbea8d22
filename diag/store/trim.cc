// SPDX-License-Identifier: Apache-2.0
// How the store forgets: Store::Trim.
#include <algorithm>

#include "diag/store/store.h"

namespace flare::diag {
namespace {

// Runs "DELETE FROM steps" for the rows that `where` picks (its ?1 is the job, ?2 the limit).
constexpr char kEnded[] = "s.job = ?1";
constexpr char kOldAttempts[] =
    "s.job = ?1 AND s.attempt < (SELECT attempt - 1 FROM jobs WHERE key = ?1)";
// A step goes once the same rank has the step ?5 later; a rank that stopped long before the others
// (no such step will ever come) loses its steps when the others are twice as far.
constexpr char kOldSteps[] =
    "s.job = ?1 AND s.attempt = ?3 AND s.step <= ?4 - ?5 AND (s.step <= ?4 - 2 * ?5 OR EXISTS "
    "(SELECT 1 FROM steps n WHERE n.job = ?1 AND n.attempt = ?3 AND n.step = s.step + ?5 AND "
    "n.rank = s.rank))";

std::string DeleteSteps(const char* where) {
  return std::string(
             "DELETE FROM steps WHERE (job, attempt, step, rank, source) IN (SELECT job, attempt, "
             "step, rank, source FROM steps s WHERE ") +
         where + " LIMIT ?2)";
}

}  // namespace

Result<uint64_t> Store::Trim(const Retention& retention, uint64_t limit, uint64_t now_unix_ns) {
  Result<Statement> rows = database_->Prepare("SELECT key FROM jobs ORDER BY key");
  if (!rows.ok()) return rows.status();
  std::vector<JobKey> keys;
  Result<bool> more = rows->Step();
  for (; more.ok() && *more; more = rows->Step()) keys.push_back(JobKey(rows->Int(0)));
  if (!more.ok()) return more.status();
  uint64_t removed = 0;
  if (Status s = database_->Execute("BEGIN IMMEDIATE"); !s.ok()) return s;
  for (size_t i = 0; i < keys.size() && removed < limit; ++i) {
    const Result<uint64_t> n = TrimJob(keys[i], retention, limit - removed, now_unix_ns);
    if (!n.ok()) {
      (void)database_->Execute("ROLLBACK");
      return n.status();
    }
    removed += *n;
  }
  if (Status s = database_->Execute("COMMIT"); !s.ok()) {
    (void)database_->Execute("ROLLBACK");
    return s;
  }
  return removed;
}

Result<uint64_t> Store::TrimJob(JobKey key, const Retention& retention, uint64_t limit,
                                uint64_t now_unix_ns) {
  constexpr uint64_t kDayNs = 86'400'000'000'000;
  const Result<StoredJob> job = ReadJob(key);
  if (!job.ok()) return job.status();
  uint64_t removed = 0;
  const auto run = [&](const char* where, auto bind_more) -> Status {
    if (removed >= limit) return Status::Ok();
    Result<Statement> s = database_->Prepare(DeleteSteps(where));
    if (!s.ok()) return s.status();
    s->Bind(0, key.value);
    s->Bind(1, limit - removed);
    bind_more(*s);
    const Status done = s->Run();
    if (done.ok()) removed += static_cast<uint64_t>(database_->rows_changed());
    return done;
  };
  const auto nothing_more = [](Statement&) {};
  if (job->ended_unix_ns != 0 &&
      job->ended_unix_ns + retention.ended_job_days * kDayNs <= now_unix_ns) {
    if (Status s = run(kEnded, nothing_more); !s.ok()) return s;
    return removed;
  }
  if (job->summary.state() == kImported) return removed;
  if (Status s = run(kOldAttempts, nothing_more); !s.ok()) return s;
  const uint32_t newest_attempt = job->summary.attempt();
  for (uint32_t a = newest_attempt - std::min(newest_attempt, 1u); a <= newest_attempt; ++a) {
    const Result<int64_t> newest = database_->Integer(
        "SELECT coalesce(max(step), -1) FROM steps WHERE job = " + std::to_string(key.value) +
        " AND attempt = " + std::to_string(a));
    if (!newest.ok()) return newest.status();
    const Status s = run(kOldSteps, [&](Statement& statement) {
      statement.Bind(2, a);
      statement.Bind(3, *newest);
      statement.Bind(4, retention.steps_per_rank);
    });
    if (!s.ok()) return s;
  }
  return removed;
}

}  // namespace flare::diag
