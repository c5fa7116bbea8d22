// SPDX-License-Identifier: Apache-2.0
// The reading half of Store.
#include <algorithm>
#include <sstream>

#include "diag/store/convert.h"
#include "diag/store/finding_details.h"
#include "diag/store/store.h"
#include "libflare/core/clock.h"

namespace flare::diag {
namespace {

// When a person got to know of the job: to them an import is as new as a run.
constexpr char kNewestFirst[] =
    "CASE state WHEN 'imported' THEN ended_unix_ns ELSE first_seen_unix_ns END DESC, key DESC";

constexpr char kJobColumns[] =
    "SELECT key, job, name, attempt, world_size, state, exit_status, first_seen_unix_ns, "
    "last_seen_unix_ns, ended_unix_ns, hooks_enabled, owner, ranks_seen, ranks_alive, steps, "
    "step_seconds_median, framework, nodes, notes, "
    "(SELECT count(*) FROM findings f WHERE f.job = key AND f.state = 'open') FROM jobs ";

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

StoredJob JobFromRow(const Statement& row) {
  StoredJob job;
  job.key = JobKey(row.Int(0));
  v1::JobSummary& m = job.summary;
  m.set_job(row.Bytes(1));
  m.set_name(row.Bytes(2));
  m.set_attempt(row.Unsigned32(3));
  m.set_world_size(row.Unsigned32(4));
  m.set_state(row.Bytes(5));
  m.set_exit_status(static_cast<int32_t>(row.Int(6)));
  m.set_first_seen_unix_ns(row.Unsigned(7));
  m.set_last_seen_unix_ns(row.Unsigned(8));
  job.ended_unix_ns = row.Unsigned(9);
  job.hooks_enabled = row.Int(10) != 0;
  job.owner = row.Bytes(11);
  m.set_ranks_seen(row.Unsigned32(12));
  m.set_ranks_alive(row.Unsigned32(13));
  m.set_steps(row.Unsigned(14));
  m.set_step_seconds_median(row.Real(15));
  m.set_framework(row.Bytes(16));
  for (std::string& node : Lines(row.Bytes(17))) m.add_nodes(std::move(node));
  job.notes = Lines(row.Bytes(18));
  m.set_open_findings(row.Unsigned32(19));
  if (m.state() == kImported) {
    m.set_imported_unix_ns(job.ended_unix_ns);
    return job;
  }
  // An engine that died could not say so.
  if (m.state() != "ended" && m.last_seen_unix_ns() + kLostAfterNs < RealtimeNs()) {
    m.set_state("lost");
  }
  return job;
}

Result<Finding> FindingFromRow(const Statement& row, const std::string& job) {
  Finding f;
  f.job = job;
  f.id = row.Bytes(0);
  f.verdict.finding_class = row.Bytes(1);
  f.verdict.cause = row.Bytes(2);
  f.verdict.team = row.Bytes(3);
  f.state = FindingStateFromName(row.Bytes(4));
  f.verdict.severity = row.Bytes(5);
  f.verdict.confidence = row.Real(6);
  f.verdict.conclusive = row.Int(7) != 0;
  f.verdict.since_unix_ns = row.Unsigned(8);
  f.verdict.open_after_unix_ns = row.Unsigned(9);
  f.first_seen_unix_ns = row.Unsigned(10);
  f.last_seen_unix_ns = row.Unsigned(11);
  f.verdict.lost_share = row.Real(12);
  f.gpu_hours_lost = row.Real(13);
  f.verdict.summary = row.Bytes(14);
  f.verdict.action = row.Bytes(15);
  if (Status s = DetailsFromJson(row.Bytes(16), &f); !s.ok()) return s.Prefixed(f.id);
  return f;
}

}  // namespace

Result<v1::ListJobsResponse> Store::ListJobs(const std::set<JobKey>& except) {
  Result<Statement> rows =
      database_->Prepare(std::string(kJobColumns) + "ORDER BY " + kNewestFirst);
  if (!rows.ok()) return rows.status();
  v1::ListJobsResponse out;
  Result<bool> more = rows->Step();
  for (; more.ok() && *more; more = rows->Step()) {
    StoredJob job = JobFromRow(*rows);
    if (!except.contains(job.key)) *out.add_jobs() = std::move(job.summary);
  }
  if (!more.ok()) return more.status();
  return out;
}

Result<std::optional<JobKey>> Store::FindJob(const std::string& job) {
  Result<Statement> row =
      database_->Prepare(std::string("SELECT key FROM jobs WHERE ?1 = '' OR job = ?1 OR name = ?1 "
                                     "ORDER BY job = ?1 DESC, ") +
                         kNewestFirst + " LIMIT 1");
  if (!row.ok()) return row.status();
  row->BindText(0, job);
  const Result<bool> found = row->Step();
  if (!found.ok()) return found.status();
  return *found ? std::optional<JobKey>(JobKey(row->Int(0))) : std::nullopt;
}

Result<v1::Report> Store::LoadReport(const std::string& job) {
  const Result<std::optional<JobKey>> key = FindJob(job);
  if (!key.ok()) return key.status();
  if (*key) return LoadReport(**key);
  const Result<v1::ListJobsResponse> jobs = ListJobs();
  if (!jobs.ok()) return jobs.status();
  return Status::Error(UnknownJob(job, *jobs));
}

Result<v1::Report> Store::LoadReport(JobKey key) {
  const Result<StoredJob> job = ReadJob(key);
  if (!job.ok()) return job.status();
  const Result<std::vector<Finding>> findings = ReadFindings(*job);
  if (!findings.ok()) return findings.status();
  const Result<std::vector<StoredRank>> ranks = ReadRanks(key, job->summary.attempt());
  if (!ranks.ok()) return ranks.status();
  v1::Report out;
  *out.mutable_job() = job->summary;
  for (const Finding& f : *findings) *out.add_findings() = FindingToProto(f);
  for (const StoredRank& r : *ranks) {
    *out.add_ranks() = r.summary;
    if (r.profile.has_device()) *out.add_profiles() = r.profile;
  }
  for (const std::string& note : job->notes) out.add_notes(note);
  return out;
}

Result<std::vector<StoredJob>> Store::UnfinishedJobs() {
  Result<Statement> rows = database_->Prepare(
      std::string(kJobColumns) + "WHERE state NOT IN ('ended', 'imported') ORDER BY key");
  if (!rows.ok()) return rows.status();
  std::vector<StoredJob> out;
  Result<bool> more = rows->Step();
  for (; more.ok() && *more; more = rows->Step()) out.push_back(JobFromRow(*rows));
  if (!more.ok()) return more.status();
  return out;
}

Result<JobMemory> Store::LoadJob(JobKey key, uint64_t steps_per_rank) {
  JobMemory out;
  Result<StoredJob> job = ReadJob(key);
  if (!job.ok()) return job.status();
  out.job = std::move(*job);
  Result<std::vector<StoredRank>> ranks = ReadRanks(key, out.job.summary.attempt());
  if (!ranks.ok()) return ranks.status();
  out.ranks = std::move(*ranks);
  Result<std::vector<Finding>> findings = ReadFindings(out.job);
  if (!findings.ok()) return findings.status();
  out.findings = std::move(*findings);
  Result<std::vector<StoredStep>> steps = ReadNewestSteps(out.job, steps_per_rank);
  if (!steps.ok()) return steps.status();
  out.steps = std::move(*steps);
  return out;
}

Result<std::optional<SourcePlace>> Store::FindSource(SourceId source) {
  const Result<Statement*> cached =
      Cached("SELECT job, attempt, rank FROM ranks WHERE source = ? ORDER BY job DESC LIMIT 1");
  if (!cached.ok()) return cached.status();
  Statement& row = **cached;
  row.Bind(0, source.value);
  const Result<bool> found = row.Step();
  if (!found.ok()) return found.status();
  std::optional<SourcePlace> out;
  if (*found) out = SourcePlace{JobKey(row.Int(0)), row.Unsigned32(1), Rank(row.Unsigned32(2))};
  row.Reset();  // ends the read transaction
  return out;
}

Result<std::optional<StoredDaemon>> Store::FindDaemon(const std::string& daemon_id) {
  Result<Statement> row = database_->Prepare(
      "SELECT node, last_sequence, last_seen_unix_ns FROM daemons WHERE daemon_id = ?");
  if (!row.ok()) return row.status();
  row->BindText(0, daemon_id);
  const Result<bool> found = row->Step();
  if (!found.ok()) return found.status();
  if (!*found) return std::optional<StoredDaemon>();
  return std::optional<StoredDaemon>({row->Bytes(0), row->Unsigned(1), row->Unsigned(2)});
}

Result<uint64_t> Store::CountSteps() {
  const Result<int64_t> count = database_->Integer("SELECT count(*) FROM steps");
  if (!count.ok()) return count.status();
  return static_cast<uint64_t>(*count);
}

Result<StoredJob> Store::ReadJob(JobKey key) {
  Result<Statement> row = database_->Prepare(std::string(kJobColumns) + "WHERE key = ?");
  if (!row.ok()) return row.status();
  row->Bind(0, key.value);
  const Result<bool> found = row->Step();
  if (!found.ok()) return found.status();
  if (!*found) return Status::Error("job " + std::to_string(key.value) + " is not in the store");
  return JobFromRow(*row);
}

Result<std::vector<StoredRank>> Store::ReadRanks(JobKey key, uint32_t attempt) {
  Result<Statement> rows = database_->Prepare(
      "SELECT hello, summary, profile FROM ranks WHERE job = ? AND attempt = ? ORDER BY rank");
  if (!rows.ok()) return rows.status();
  rows->Bind(0, key.value);
  rows->Bind(1, attempt);
  std::vector<StoredRank> out;
  Result<bool> more = rows->Step();
  for (; more.ok() && *more; more = rows->Step()) {
    StoredRank rank{key, attempt, {}, {}, {}};
    if (!rank.hello.ParseFromString(rows->Bytes(0)) ||
        !rank.summary.ParseFromString(rows->Bytes(1)) ||
        !rank.profile.ParseFromString(rows->Bytes(2))) {
      return Status::Error("database " + database_->path() + ": a rank of job " +
                           std::to_string(key.value) + " cannot be read: damaged");
    }
    out.push_back(std::move(rank));
  }
  if (!more.ok()) return more.status();
  return out;
}

Result<std::vector<Finding>> Store::ReadFindings(const StoredJob& job) {
  Result<Statement> rows = database_->Prepare(
      "SELECT id, class, cause, team, state, severity, confidence, conclusive, since_unix_ns, "
      "open_after_unix_ns, first_seen_unix_ns, last_seen_unix_ns, lost_share, gpu_hours_lost, "
      "summary, action, "
      "details FROM findings WHERE job = ? ORDER BY first_seen_unix_ns, length(id), id");
  if (!rows.ok()) return rows.status();
  rows->Bind(0, job.key.value);
  std::vector<Finding> out;
  Result<bool> more = rows->Step();
  for (; more.ok() && *more; more = rows->Step()) {
    Result<Finding> finding = FindingFromRow(*rows, job.summary.job());
    if (!finding.ok()) return finding.status().Prefixed("database " + database_->path());
    out.push_back(std::move(*finding));
  }
  if (!more.ok()) return more.status();
  return out;
}

Result<std::vector<StoredStep>> Store::ReadNewestSteps(const StoredJob& job,
                                                       uint64_t steps_per_rank) {
  // Bounded in all: the newest steps of a very large job would not fit the memory of a restart.
  constexpr uint64_t kMostSteps = 200'000;
  const uint64_t ranks = std::max<uint64_t>(1, job.summary.ranks_seen());
  Result<Statement> rows = database_->Prepare(
      "SELECT step, rank, source, start_unix_ns, duration_ns, communication_ns, data FROM steps "
      "WHERE job = ? AND attempt = ? ORDER BY step DESC, rank DESC LIMIT ?");
  if (!rows.ok()) return rows.status();
  rows->Bind(0, job.key.value);
  rows->Bind(1, job.summary.attempt());
  rows->Bind(2, std::min(kMostSteps, ranks * std::min(steps_per_rank, kMostSteps)));
  std::vector<StoredStep> out;
  Result<bool> more = rows->Step();
  for (; more.ok() && *more; more = rows->Step()) {
    out.push_back({job.key, job.summary.attempt(), rows->Unsigned32(1), rows->Unsigned(2),
                   rows->Unsigned(0), rows->Unsigned(3), rows->Unsigned(4), rows->Unsigned(5),
                   rows->Bytes(6)});
  }
  if (!more.ok()) return more.status();
  std::reverse(out.begin(), out.end());
  return out;
}

std::string UnknownJob(const std::string& job, const v1::ListJobsResponse& known) {
  constexpr int kMostNamed = 5;
  if (known.jobs_size() == 0) return "no job is known yet";
  std::string out = "no job '" + job.substr(0, 100) + "'; known: ";
  for (int i = 0; i < known.jobs_size() && i < kMostNamed; ++i) {
    const v1::JobSummary& j = known.jobs(i);
    out += (i ? ", " : "") + j.job();
    if (!j.name().empty() && j.name() != j.job()) out += " (" + j.name() + ")";
  }
  if (known.jobs_size() > kMostNamed) {
    out += " and " + std::to_string(known.jobs_size() - kMostNamed) + " more";
  }
  return out;
}

}  // namespace flare::diag
