// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "diag/store/store.h"
#include "libflare/core/clock.h"

// Small values to store, shared by the tests of the store.
namespace flare::diag {

inline StoredJob MakeJob(int64_t key, const std::string& identity, uint32_t attempt = 0) {
  StoredJob job;
  job.key = JobKey(key);
  job.summary.set_job(identity);
  job.summary.set_name("name of " + identity);
  job.summary.set_attempt(attempt);
  job.summary.set_world_size(4);
  job.summary.set_ranks_seen(2);
  job.summary.set_state("running");
  job.summary.set_exit_status(-1);
  job.summary.set_first_seen_unix_ns(1000 + static_cast<uint64_t>(key));
  job.summary.set_last_seen_unix_ns(RealtimeNs());
  job.summary.set_framework("torch 2.13");
  job.summary.add_nodes("node-a");
  job.summary.add_nodes("node-b");
  job.owner = "00112233445566aa";
  return job;
}

inline StoredRank MakeRank(int64_t key, uint32_t rank, uint64_t source, uint32_t attempt = 0) {
  StoredRank out{JobKey(key), attempt, {}, {}, {}};
  out.hello.set_source(source);
  out.hello.set_rank(rank);
  out.hello.set_node("node-a");
  out.hello.set_pid(100 + rank);
  out.summary.set_rank(rank);
  out.summary.set_state("running");
  return out;
}

inline StoredStep MakeStep(int64_t key, uint32_t rank, uint64_t step, uint32_t attempt = 0,
                           uint64_t source = 0) {
  StoredStep out{JobKey(key), attempt, rank, source ? source : 1000 + rank, step, 0, 0, 0, ""};
  v1::RankStep message;
  message.set_step(step);
  message.set_duration_ns(step * 10);
  out.duration_ns = step * 10;
  out.message = message.SerializeAsString();
  return out;
}

inline Finding MakeFinding(const std::string& identity, const std::string& id) {
  Finding f;
  f.id = id;
  f.job = identity;
  f.state = FindingState::kOpen;
  f.first_seen_unix_ns = 11;
  f.last_seen_unix_ns = 12;
  f.gpu_hours_lost = 0.25;
  f.until_job_end = true;
  f.verdict.finding_class = "hang";
  f.verdict.cause = "process_stopped";
  f.verdict.team = "operations";
  f.verdict.ranks = {Rank(3)};
  f.verdict.victims = {Rank(0), Rank(1)};
  f.verdict.nodes = {"node-a"};
  f.verdict.links = {"a-b"};
  f.verdict.conclusive = true;
  f.verdict.since_unix_ns = 9;
  f.verdict.open_after_unix_ns = 77;
  f.verdict.lost_share = 0.5;
  f.verdict.confidence = 0.9;
  f.verdict.severity = "high";
  f.verdict.summary = "rank 3 is stopped";
  f.verdict.action = "continue it";
  f.verdict.evidence = {{"state T", "run_state", 1.5, "s", 2.5}, {"no number", "", {}, "", {}}};
  return f;
}

inline void Add(StoreWrites* writes, const StoredJob& job) { writes->jobs[job.key] = job; }
inline void Add(StoreWrites* writes, const StoredRank& rank) {
  writes->ranks[{rank.job, rank.hello.rank()}] = rank;
}
inline void Add(StoreWrites* writes, int64_t key, const Finding& finding) {
  writes->findings[{JobKey(key), finding.id}] = finding;
}

}  // namespace flare::diag
