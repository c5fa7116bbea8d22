// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/job_table.h"

#include <algorithm>
#include <utility>

#include "diag/engine/engine_log.h"

namespace flare::diag {
namespace {

// Per message: one that is full of unknown sources must not keep the loop busy with searching.
constexpr int kMaxLookups = 256;

}  // namespace

JobTable::JobTable(std::string owner, JobArchive* archive)
    : owner_(std::move(owner)), archive_(archive) {}

JobKey JobTable::NewKey(uint64_t now_unix_ns) {
  last_key_ = std::max(NewJobKey(now_unix_ns), JobKey(last_key_.value + 1));
  return last_key_;
}

LiveJob* JobTable::Adopt(JobMemory memory) {
  const JobKey key = memory.job.key;
  const uint32_t attempt = memory.job.summary.attempt();
  std::vector<std::pair<SourceId, Rank>> ranks;
  for (const StoredRank& r : memory.ranks) {
    ranks.emplace_back(SourceId(r.hello.source()), Rank(r.hello.rank()));
  }
  auto job = std::make_unique<LiveJob>(std::move(memory), owner_);
  LiveJob* live = job.get();
  JobKey& newest = newest_[live->job().id];
  newest = std::max(newest, key);
  jobs_[key] = std::move(job);
  for (const auto& [source, rank] : ranks) {
    sources_.try_emplace(source, Source{key, live, attempt, rank, nullptr});
  }
  return live;
}

std::shared_ptr<Daemon> JobTable::FindOrAddDaemon(const std::string& id) {
  std::shared_ptr<Daemon>& daemon = daemons_[id];
  if (!daemon) {
    daemon = std::make_shared<Daemon>();
    daemon->id = id;
  }
  return daemon;
}

LiveJob* JobTable::AddJob(const v1::RankHello& hello, uint64_t now_unix_ns) {
  const JobKey key = NewKey(now_unix_ns);
  auto job = std::make_unique<LiveJob>(key, owner_, hello, now_unix_ns);
  LiveJob* live = job.get();
  jobs_[key] = std::move(job);
  newest_[hello.job()] = key;
  EngineLog().info("job {}: first rank on node {}", hello.job(), hello.node());
  return live;
}

LiveJob* JobTable::FindForHello(const v1::RankHello& hello, uint64_t now_unix_ns) {
  // A process that is known already stays with its job, whatever has come since.
  const auto known = sources_.find(SourceId(hello.source()));
  if (known != sources_.end() && known->second.live->job().id == hello.job()) {
    return known->second.live;
  }
  const auto newest = newest_.find(hello.job());
  if (newest != newest_.end()) return Find(newest->second);
  if (std::optional<JobMemory> memory = archive_->LoadNewest(hello.job()))
    return Adopt(std::move(*memory));
  return AddJob(hello, now_unix_ns);
}

void JobTable::Bind(const std::shared_ptr<Daemon>& daemon, const v1::RankHello& hello,
                    LiveJob* job) {
  Source& source = sources_[SourceId(hello.source())];
  if (source.daemon != daemon) {
    if (source.daemon) --source.daemon->sources;
    ++daemon->sources;
  }
  source = {job->key(), job, hello.attempt(), Rank(hello.rank()), daemon};
}

void JobTable::TakeHello(const std::shared_ptr<Daemon>& daemon, const v1::RankHello& hello,
                         uint64_t now_unix_ns, std::set<LiveJob*>* touched) {
  if (daemon->sources >= kMaxSourcesPerDaemon && !sources_.contains(SourceId(hello.source()))) {
    CountRejected(*daemon, 1, "too many processes on one node");
    return;
  }
  LiveJob* job = FindForHello(hello, now_unix_ns);
  if (job->TakeHello(hello, daemon, now_unix_ns) == LiveJob::HelloResult::kOtherJob) {
    if (!job->job().ended) job->End(-1, now_unix_ns);
    touched->insert(job);
    job = AddJob(hello, now_unix_ns);
    job->TakeHello(hello, daemon, now_unix_ns);
  }
  Bind(daemon, hello, job);
  touched->insert(job);
  if (job->hooks_enabled()) return;
  if (const std::shared_ptr<DaemonStream> stream = daemon->stream.lock()) {
    stream->SwitchJob(job->job().id, false);
  }
}

// Resent steps may belong to a process that ended, and was introduced, before this engine began.
JobTable::Source* JobTable::FindArchivedSource(SourceId id) {
  const std::optional<SourcePlace> place = archive_->FindSource(id);
  if (!place) return nullptr;
  LiveJob* live = Find(place->job);
  if (!live) {
    std::optional<JobMemory> memory = archive_->Load(place->job);
    if (!memory) return nullptr;
    live = Adopt(std::move(*memory));
  }
  Source& source = sources_[id];
  source = {place->job, live, place->attempt, place->rank, nullptr};
  return &source;
}

JobTable::Source* JobTable::FindSource(SourceId id, const Daemon& daemon, int* lookups) {
  const auto found = sources_.find(id);
  Source* source = found != sources_.end() ? &found->second : nullptr;
  if (!source && --*lookups >= 0) source = FindArchivedSource(id);
  if (source && (!source->daemon || source->daemon.get() == &daemon)) return source;
  ++counters_.unknown_sources;
  return nullptr;
}

void JobTable::CountRejected(const Daemon& daemon, uint32_t rejected, const std::string& reason) {
  if (rejected == 0) return;
  // Powers of two: a daemon that sends nothing else must not fill the log.
  const uint64_t before = counters_.rejected;
  counters_.rejected += rejected;
  if ((before & (before - 1)) == 0 || before / 4096 != counters_.rejected / 4096) {
    EngineLog().warn("daemon {}: {} items rejected ({} in all): {}", daemon.id, rejected,
                     counters_.rejected, reason);
  }
}

void JobTable::TakeBatch(const std::shared_ptr<Daemon>& daemon, CheckedBatch batch,
                         uint64_t now_unix_ns, StoreWrites* writes) {
  daemon->last_heard_unix_ns = now_unix_ns;
  ++counters_.batches;
  // A number that came before is no reason to look away: a daemon that lost its counter would lose
  // its steps too. What is the same is recognised step by step.
  if (batch.sequence <= daemon->last_sequence) ++counters_.batches_repeated;
  daemon->last_sequence = std::max(daemon->last_sequence, batch.sequence);
  CountRejected(*daemon, batch.rejected, batch.first_rejection);
  std::set<LiveJob*> touched;
  for (const v1::RankHello& hello : batch.hellos) {
    TakeHello(daemon, hello, now_unix_ns, &touched);
  }
  uint32_t unknown = 0;
  int lookups = kMaxLookups;
  for (CheckedStep& s : batch.steps) {
    const Source* source = FindSource(s.source, *daemon, &lookups);
    if (!source) {
      ++unknown;
      continue;
    }
    ++counters_.steps;
    writes->steps.push_back({source->job, source->attempt, source->rank.value, s.source.value,
                             s.step.step.value, s.step.start_unix_ns, s.step.duration_ns,
                             s.step.communication_ns, std::move(s.message)});
    if (source->attempt == source->live->job().attempt) {
      source->live->TakeStep(s.source, source->rank, std::move(s.step), now_unix_ns);
    }
  }
  CountRejected(*daemon, unknown, "steps of a process that nobody introduced");
  for (LiveJob* job : touched) job->CollectWrites(now_unix_ns, writes);
  StoredDaemon& stored = writes->daemons[daemon->id];
  stored = {daemon->node, std::max(stored.last_sequence, batch.sequence), now_unix_ns};
}

void JobTable::TakeStates(const std::shared_ptr<Daemon>& daemon, CheckedStates states,
                          uint64_t now_unix_ns) {
  daemon->last_heard_unix_ns = now_unix_ns;
  CountRejected(*daemon, states.rejected, states.first_rejection);
  uint32_t unknown = 0;
  int lookups = kMaxLookups;
  for (CheckedState& s : states.states) {
    const Source* source = FindSource(s.source, *daemon, &lookups);
    if (!source) {
      ++unknown;
      continue;
    }
    ++counters_.states;
    if (source->live->TakeState(s.source, source->rank, std::move(s.state), std::move(s.parts),
                                now_unix_ns)) {
      urgent_.insert(source->job);
    }
  }
  CountRejected(*daemon, unknown, "states of a process that nobody introduced");
}

void JobTable::Look(uint64_t now_unix_ns, StoreWrites* writes) {
  urgent_.clear();
  for (const auto& [key, job] : jobs_) {
    job->Look(now_unix_ns);
    job->CollectWrites(now_unix_ns, writes);
  }
}

void JobTable::LookAtUrgent(uint64_t now_unix_ns, StoreWrites* writes) {
  for (JobKey key : std::exchange(urgent_, {})) {
    LiveJob* job = Find(key);
    if (!job) continue;
    job->Look(now_unix_ns);
    job->CollectWrites(now_unix_ns, writes);
  }
}

void JobTable::Forget(uint64_t now_unix_ns, const std::set<JobKey>& keep) {
  std::set<JobKey> gone;
  for (const auto& [key, job] : jobs_) {
    const uint64_t heard = std::max(job->job().last_heard_unix_ns, job->ended_unix_ns());
    const uint64_t wait_ns = job->job().ended ? kForgetEndedAfterNs : kForgetLostAfterNs;
    if (now_unix_ns > heard + wait_ns && !keep.contains(key)) gone.insert(key);
  }
  if (!gone.empty()) {
    std::erase_if(sources_, [&](const auto& s) {
      if (!gone.contains(s.second.job)) return false;
      if (s.second.daemon) --s.second.daemon->sources;
      return true;
    });
    std::erase_if(newest_, [&](const auto& n) { return gone.contains(n.second); });
    std::erase_if(jobs_, [&](const auto& j) { return gone.contains(j.first); });
  }
  // A daemon that is away and has nothing here is met anew when it comes back.
  std::erase_if(daemons_, [&](const auto& d) {
    return d.second->sources == 0 && d.second->stream.expired();
  });
}

LiveJob* JobTable::Find(JobKey key) {
  const auto found = jobs_.find(key);
  return found == jobs_.end() ? nullptr : found->second.get();
}

LiveJob* JobTable::Find(const std::string& job) {
  if (job.empty()) return jobs_.empty() ? nullptr : jobs_.rbegin()->second.get();
  if (const auto newest = newest_.find(job); newest != newest_.end()) return Find(newest->second);
  for (auto j = jobs_.rbegin(); j != jobs_.rend(); ++j) {
    if (j->second->job().name == job) return j->second.get();
  }
  return nullptr;
}

std::vector<const LiveJob*> JobTable::Jobs() const {
  std::vector<const LiveJob*> out;
  for (auto j = jobs_.rbegin(); j != jobs_.rend(); ++j) out.push_back(j->second.get());
  return out;
}

std::vector<std::shared_ptr<const Daemon>> JobTable::ConnectedDaemons() const {
  std::vector<std::shared_ptr<const Daemon>> connected;
  for (const auto& [id, daemon] : daemons_) {
    if (!daemon->stream.expired()) connected.push_back(daemon);
  }
  return connected;
}

uint32_t JobTable::SwitchJob(LiveJob* job, bool enabled, StoreWrites* writes,
                             uint64_t now_unix_ns) {
  job->SetHooksEnabled(enabled);
  job->CollectWrites(now_unix_ns, writes);
  std::set<std::shared_ptr<Daemon>> daemons;
  for (const auto& [id, source] : sources_) {
    if (source.job == job->key() && source.daemon) daemons.insert(source.daemon);
  }
  uint32_t told = 0;
  for (const std::shared_ptr<Daemon>& d : daemons) {
    const std::shared_ptr<DaemonStream> stream = d->stream.lock();
    told += stream && stream->SwitchJob(job->job().id, enabled);
  }
  return told;
}

}  // namespace flare::diag
