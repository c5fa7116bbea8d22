// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/live_job.h"

#include <algorithm>

#include "diag/detect/detector_list.h"
#include "diag/engine/engine_log.h"
#include "diag/engine/report_view.h"
#include "diag/store/convert.h"

namespace flare::diag {
namespace {

bool IsLive(const Finding& f) {
  return f.state == FindingState::kSuspected || f.state == FindingState::kOpen;
}

void InsertStep(RankStep step, std::deque<RankStep>* steps) {
  auto at = steps->end();
  while (at != steps->begin() && std::prev(at)->step >= step.step) --at;
  if (at != steps->end() && at->step == step.step) return;  // came again
  if (at == steps->begin() && steps->size() >= kKeptSteps) return;
  steps->insert(at, std::move(step));
  if (steps->size() > kKeptSteps) steps->pop_front();
}

}  // namespace

LiveJob::LiveJob(JobKey key, std::string owner, const v1::RankHello& first, uint64_t now_unix_ns)
    : key_(key), owner_(std::move(owner)), tracker_(first.job()) {
  job_.id = first.job();
  job_.attempt = first.attempt();
  job_.first_seen_unix_ns = now_unix_ns;
  job_.last_heard_unix_ns = now_unix_ns;
}

LiveJob::LiveJob(JobMemory memory, std::string owner)
    : key_(memory.job.key), owner_(std::move(owner)), tracker_(memory.job.summary.job()) {
  const v1::JobSummary& summary = memory.job.summary;
  job_.id = summary.job();
  job_.name = summary.name();
  job_.attempt = summary.attempt();
  job_.world_size = summary.world_size();
  job_.first_seen_unix_ns = summary.first_seen_unix_ns();
  job_.last_heard_unix_ns = summary.last_seen_unix_ns();
  job_.ended = summary.state() == "ended";
  job_.exit_status = summary.exit_status();
  ended_unix_ns_ = memory.job.ended_unix_ns;
  hooks_enabled_ = memory.job.hooks_enabled;
  for (StoredRank& stored : memory.ranks) {
    const Rank number(stored.hello.rank());
    RankRecord rank = RankFromProto(stored.hello);
    rank.state.steps = stored.summary.steps();
    ProcessState& process = rank.state.process;
    if (stored.summary.state() == "exited") process.life = Life::kExited;
    if (stored.summary.state() == "died") process.life = Life::kDied;
    process.exit_code = stored.summary.exit_code();
    if (IsOver(rank)) rank.ended_unix_ns = job_.last_heard_unix_ns;
    job_.ranks.emplace(number, std::move(rank));
    hellos_.emplace(number, std::move(stored.hello));
  }
  for (const StoredStep& stored : memory.steps) {
    const auto rank = job_.ranks.find(Rank(stored.rank));
    v1::RankStep message;
    if (rank != job_.ranks.end() && rank->second.source.value == stored.source &&
        message.ParseFromString(stored.message)) {
      InsertStep(StepFromProto(message), &rank->second.steps);
    }
  }
  for (const auto& [number, rank] : job_.ranks) ranks_changed_.insert(number);
  RefreshProfiles();
  ranks_changed_.clear();
  for (const Finding& f : memory.findings) persisted_[f.id] = {f.state, f.last_seen_unix_ns};
  tracker_.Restore(std::move(memory.findings));
}

bool LiveJob::AllGone() const {
  return !job_.ranks.empty() && std::all_of(job_.ranks.begin(), job_.ranks.end(),
                                            [](const auto& r) { return IsOver(r.second); });
}

// Identities such as "localhost:29500" come again when a person starts the next run. It is the next
// run when everything known is over and the newcomer began after that.
bool LiveJob::IsNextJob(const v1::RankHello& hello) const {
  if (hello.attempt() > job_.attempt) return false;
  if (job_.ended) return hello.started_unix_ns() > ended_unix_ns_;
  const bool whole = job_.ranks.size() >= job_.world_size;
  if (!AllGone() || (!whole && !job_.ranks.contains(Rank(hello.rank())))) return false;
  return std::all_of(job_.ranks.begin(), job_.ranks.end(), [&](const auto& r) {
    return hello.started_unix_ns() > r.second.ended_unix_ns;
  });
}

void LiveJob::StartAttempt(const v1::RankHello& hello, uint64_t now_unix_ns) {
  EngineLog().info("job {}: attempt {} begins", job_.id, hello.attempt());
  SettleFindings(now_unix_ns);
  job_.attempt = hello.attempt();
  job_.world_size = 0;
  job_.ended = false;
  job_.exit_status = -1;
  job_.ranks.clear();
  daemons_.clear();
  hellos_.clear();
  profiles_.clear();
  ranks_unstored_.clear();
  ranks_changed_.clear();
  ended_unix_ns_ = 0;
  all_gone_since_unix_ns_ = 0;
}

LiveJob::HelloResult LiveJob::TakeHello(const v1::RankHello& hello,
                                        std::shared_ptr<const Daemon> daemon,
                                        uint64_t now_unix_ns) {
  const Rank number(hello.rank());
  auto known = job_.ranks.find(number);
  const bool same_source =
      known != job_.ranks.end() && known->second.source.value == hello.source();
  if (!same_source) {
    if (hello.attempt() < job_.attempt) return HelloResult::kOld;
    if (IsNextJob(hello)) return HelloResult::kOtherJob;
    if (hello.attempt() > job_.attempt) {
      StartAttempt(hello, now_unix_ns);
      known = job_.ranks.end();
    }
    if (known != job_.ranks.end() && hello.started_unix_ns() < known->second.started_unix_ns) {
      return HelloResult::kOld;
    }
    job_.ranks.insert_or_assign(number, RankFromProto(hello));
    all_gone_since_unix_ns_ = 0;
  }
  if (!hello.job_name().empty()) job_.name = hello.job_name();
  job_.world_size = std::max(job_.world_size, hello.world_size());
  job_.last_heard_unix_ns = now_unix_ns;
  daemons_[number] = std::move(daemon);
  hellos_[number] = hello;
  ranks_unstored_.insert(number);
  job_unstored_ = true;
  ++revision_;
  return HelloResult::kCurrent;
}

void LiveJob::TakeStep(SourceId source, Rank rank, RankStep step, uint64_t now_unix_ns) {
  const auto found = job_.ranks.find(rank);
  if (found == job_.ranks.end() || found->second.source != source) return;
  InsertStep(std::move(step), &found->second.steps);
  ranks_changed_.insert(rank);
  job_.last_heard_unix_ns = now_unix_ns;
  ++revision_;
}

bool LiveJob::TakeState(SourceId source, Rank rank, RankState state, std::vector<PartStatus> parts,
                        uint64_t now_unix_ns) {
  const auto found = job_.ranks.find(rank);
  if (found == job_.ranks.end() || found->second.source != source) return false;
  job_.last_heard_unix_ns = now_unix_ns;
  RankRecord& record = found->second;
  if (state.at_unix_ns < record.state.at_unix_ns) return false;
  const bool was_over = IsOver(record);
  const bool was_stopped = IsStopped(record);
  if (state.at_unix_ns > record.state.at_unix_ns) {
    record.previous_at_unix_ns = record.state.at_unix_ns;
    record.previous_main_thread_cpu_ns = record.state.process.main_thread_cpu_ns;
    record.previous_run_delay_ns = record.state.process.run_delay_ns;
  }
  record.state = std::move(state);
  if (!parts.empty()) record.parts = std::move(parts);
  const uint64_t at = record.state.at_unix_ns;
  record.ended_unix_ns = !IsOver(record)                    ? 0
                         : was_over && record.ended_unix_ns ? record.ended_unix_ns
                                                            : at;
  record.stopped_since_unix_ns = !IsStopped(record) ? 0
                                 : was_stopped      ? record.stopped_since_unix_ns
                                                    : at;
  const bool urgent = IsOver(record) != was_over || IsStopped(record) != was_stopped;
  if (IsOver(record) && !was_over) ranks_unstored_.insert(rank);
  ranks_changed_.insert(rank);
  ++revision_;
  return urgent;
}

bool LiveJob::Silent(Rank rank, uint64_t now_unix_ns) const {
  const auto daemon = daemons_.find(rank);
  return daemon == daemons_.end() ||
         daemon->second->last_heard_unix_ns + kSilentAfterNs < now_unix_ns;
}

// Nothing new is known of a rank whose daemon is away, or has not spoken since this engine started:
// that must not look like the end of its trouble. A held suspicion never opens by time alone.
void LiveJob::HoldFindingsOfAbsentRanks(uint64_t now_unix_ns,
                                        std::vector<Verdict>* verdicts) const {
  const size_t found = verdicts->size();
  for (const Finding& f : tracker_.findings()) {
    if (!IsLive(f)) continue;
    const bool absent = std::any_of(f.verdict.ranks.begin(), f.verdict.ranks.end(), [&](Rank r) {
      const auto rank = job_.ranks.find(r);
      if (rank == job_.ranks.end()) return true;
      return rank->second.state.at_unix_ns == 0 ||
             (!IsOver(rank->second) && Silent(r, now_unix_ns));
    });
    // News about the same kind of trouble, or the same ranks, is for the tracker to judge.
    const auto has_news = [&](const Verdict& v) {
      return v.finding_class == f.verdict.finding_class || v.ranks == f.verdict.ranks;
    };
    const auto end = verdicts->begin() + static_cast<ptrdiff_t>(found);
    if (!absent || std::any_of(verdicts->begin(), end, has_news)) continue;
    verdicts->push_back(f.verdict);
    verdicts->back().conclusive = f.state == FindingState::kOpen;
    verdicts->back().open_after_unix_ns = 0;
  }
}

void LiveJob::Diagnose(uint64_t now_unix_ns) {
  std::vector<Verdict> verdicts = RunDetectors(job_, now_unix_ns);
  HoldFindingsOfAbsentRanks(now_unix_ns, &verdicts);
  if (tracker_.Update(job_, verdicts, now_unix_ns)) {
    findings_changed_ = true;
    ++revision_;
  }
}

void LiveJob::Look(uint64_t now_unix_ns) {
  if (job_.ended || now_unix_ns > job_.last_heard_unix_ns + kLostAfterNs) return;
  Diagnose(now_unix_ns);
  if (!AllGone()) {
    all_gone_since_unix_ns_ = 0;
    return;
  }
  if (all_gone_since_unix_ns_ == 0) all_gone_since_unix_ns_ = now_unix_ns;
  const bool whole = job_.ranks.size() >= job_.world_size;
  const uint64_t wait_ns = whole ? kEndedAfterNs : kIncompleteEndedAfterNs;
  if (now_unix_ns - all_gone_since_unix_ns_ >= wait_ns) End(-1, now_unix_ns);
}

void LiveJob::End(int32_t exit_status, uint64_t now_unix_ns) {
  if (exit_status != -1 || !job_.ended) job_.exit_status = exit_status;
  job_unstored_ = true;
  ++revision_;
  if (!job_.ended) {
    job_.ended = true;
    ended_unix_ns_ = now_unix_ns;
    for (const auto& [number, rank] : job_.ranks) ranks_unstored_.insert(number);
    Diagnose(now_unix_ns);
    EngineLog().info("job {}: ended", job_.id);
  }
  SettleFindings(now_unix_ns);
}

// A job whose ranks have all left with 0 ended well, whoever started its command.
void LiveJob::SettleFindings(uint64_t now_unix_ns) {
  const int32_t known = job_.exit_status;
  const bool all_left =
      !job_.ranks.empty() && std::all_of(job_.ranks.begin(), job_.ranks.end(), [](const auto& r) {
        const ProcessState& p = r.second.state.process;
        return p.life == Life::kExited && p.exit_code == 0;
      });
  if (known == -1 && all_left) job_.exit_status = 0;
  findings_changed_ |= tracker_.EndJob(job_, now_unix_ns);
  job_.exit_status = known;
}

void LiveJob::SetHooksEnabled(bool enabled) {
  job_unstored_ |= hooks_enabled_ != enabled;
  hooks_enabled_ = enabled;
}

std::string LiveJob::StateInWords(uint64_t now_unix_ns) const {
  if (job_.ended) return "ended";
  if (now_unix_ns > job_.last_heard_unix_ns + kLostAfterNs) return "lost";
  const std::vector<Finding>& all = tracker_.findings();
  const bool hangs = std::any_of(all.begin(), all.end(), [](const Finding& f) {
    return IsLive(f) && f.verdict.finding_class == "hang";
  });
  return hangs ? "stalled" : "running";
}

v1::JobSummary LiveJob::Summary(uint64_t now_unix_ns) const {
  v1::JobSummary out = SummarizeJob(job_);
  out.set_state(StateInWords(now_unix_ns));
  const std::vector<Finding>& all = tracker_.findings();
  out.set_open_findings(static_cast<uint32_t>(std::count_if(
      all.begin(), all.end(), [](const Finding& f) { return f.state == FindingState::kOpen; })));
  return out;
}

v1::Report LiveJob::Report(uint64_t now_unix_ns) const {
  v1::Report out;
  *out.mutable_job() = Summary(now_unix_ns);
  for (const Finding& f : tracker_.findings()) *out.add_findings() = FindingToProto(f);
  for (const auto& [number, rank] : job_.ranks) {
    *out.add_ranks() = SummarizeRank(rank, Silent(number, now_unix_ns));
  }
  for (const auto& [number, profile] : profiles_) *out.add_profiles() = profile;
  return out;
}

void LiveJob::CollectFindings(StoreWrites* writes) {
  for (const Finding& f : tracker_.findings()) {
    const Persisted now{f.state, f.last_seen_unix_ns};
    const auto before = persisted_.find(f.id);
    if (before != persisted_.end() && before->second == now) continue;
    // One that opened at the last look of a job is settled at once.
    const bool was_open =
        before != persisted_.end() && before->second.state != FindingState::kSuspected;
    const bool is_open = f.state == FindingState::kOpen || f.state == FindingState::kResolved;
    if (is_open && !was_open) {
      EngineLog().warn("job {}: finding {} opened: {}/{}: {}", job_.id, f.id,
                       f.verdict.finding_class, f.verdict.cause, f.verdict.summary);
    }
    persisted_.insert_or_assign(f.id, now);
    writes->findings.insert_or_assign({key_, f.id}, f);
  }
  findings_changed_ = false;
}

void LiveJob::RefreshProfiles() {
  for (Rank number : ranks_changed_) {
    const auto rank = job_.ranks.find(number);
    if (rank == job_.ranks.end()) continue;
    v1::RankProfile profile = ProfileOf(rank->second, kProfiledSteps);
    if (profile.has_device()) profiles_[number] = std::move(profile);
  }
}

void LiveJob::CollectWrites(uint64_t now_unix_ns, StoreWrites* writes) {
  const bool summaries_due =
      revision_ != summaries_revision_ && now_unix_ns >= summaries_at_unix_ns_ + kSummaryEveryNs;
  if (summaries_due) {
    RefreshProfiles();
    ranks_unstored_.merge(ranks_changed_);
    job_unstored_ = true;
    ranks_changed_.clear();
    summaries_at_unix_ns_ = now_unix_ns;
    summaries_revision_ = revision_;
  }
  if (findings_changed_ || summaries_due) {
    // The state of a job follows from its findings.
    job_unstored_ |= findings_changed_;
    CollectFindings(writes);
  }
  if (job_unstored_) {
    writes->jobs[key_] = {key_, Summary(now_unix_ns), ended_unix_ns_, hooks_enabled_, owner_, {}};
    job_unstored_ = false;
  }
  for (Rank number : ranks_unstored_) {
    const auto rank = job_.ranks.find(number);
    const auto hello = hellos_.find(number);
    if (rank == job_.ranks.end() || hello == hellos_.end()) continue;
    const auto profile = profiles_.find(number);
    writes->ranks[{key_, number.value}] = {
        key_, job_.attempt, hello->second, SummarizeRank(rank->second, false),
        profile == profiles_.end() ? v1::RankProfile() : profile->second};
  }
  ranks_unstored_.clear();
}

}  // namespace flare::diag
