// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/imported_job.h"

#include <algorithm>
#include <utility>

#include "diag/detect/detector_list.h"
#include "diag/detect/finding_tracker.h"
#include "diag/engine/report_view.h"
#include "diag/store/convert.h"

namespace flare::diag {
namespace {

// In place of a source of a traced process, which is drawn by chance.
uint64_t SourceOf(JobKey key, Rank rank) {
  const uint64_t mixed =
      (static_cast<uint64_t>(key.value) ^ (uint64_t{rank.value} << 40)) * 0x9e3779b97f4a7c15;
  return std::max<uint64_t>(1, mixed);
}

std::string OneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

}  // namespace

ImportedJob::ImportedJob(const Job& job, ImportFacts facts)
    : key_(NewJobKey(facts.imported_unix_ns)), job_(job), facts_(std::move(facts)) {
  FindingTracker tracker(job_.id);
  tracker.Update(job_, RunDetectors(job_, facts_.now_unix_ns), facts_.now_unix_ns);
  findings_ = tracker.findings();
  for (Finding& finding : findings_) {
    if (facts_.absolute_time) continue;
    finding.first_seen_unix_ns = finding.last_seen_unix_ns = 0;
    finding.verdict.since_unix_ns = 0;
  }
  Summarize();
}

void ImportedJob::Summarize() {
  v1::JobSummary* summary = report_.mutable_job();
  *summary = SummarizeJob(job_);
  summary->set_state(kImported);
  summary->set_imported_unix_ns(facts_.imported_unix_ns);
  if (!facts_.absolute_time) {
    summary->set_first_seen_unix_ns(0);
    summary->set_last_seen_unix_ns(0);
  }
  uint32_t alive = 0;
  for (const auto& [number, rank] : job_.ranks) {
    v1::RankSummary* out = report_.add_ranks();
    *out = SummarizeRank(rank, false);
    // Steps alone do not tell whether a process lives.
    if (rank.state.process.life == Life::kUnknown) out->set_state("unknown");
    alive += rank.state.process.life == Life::kRunning;
    v1::RankProfile profile = ProfileOf(rank, rank.steps.size());
    if (profile.has_device()) *report_.add_profiles() = std::move(profile);
  }
  summary->set_ranks_alive(alive);
  uint32_t open = 0;
  for (const Finding& finding : findings_) {
    *report_.add_findings() = FindingToProto(finding);
    open += finding.state == FindingState::kOpen;
  }
  summary->set_open_findings(open);
  for (const std::string& note : facts_.notes) report_.add_notes(OneLine(note));
}

void ImportedJob::AddTo(StoreWrites* writes) const {
  StoredJob& stored = writes->jobs[key_];
  stored.key = key_;
  stored.summary = report_.job();
  stored.ended_unix_ns = facts_.imported_unix_ns;
  stored.notes.assign(report_.notes().begin(), report_.notes().end());
  for (const v1::RankSummary& rank : report_.ranks()) {
    StoredRank& out = writes->ranks[{key_, rank.rank()}];
    out = {key_, 0, RankToProto(job_.ranks.at(Rank(rank.rank()))), rank, {}};
    out.hello.set_source(SourceOf(key_, Rank(rank.rank())));
    out.hello.set_job(job_.id);
    out.hello.set_job_name(job_.name);
    out.hello.set_world_size(job_.world_size);
  }
  for (const v1::RankProfile& profile : report_.profiles()) {
    writes->ranks[{key_, profile.rank()}].profile = profile;
  }
  for (const Finding& finding : findings_) {
    writes->findings.insert_or_assign({key_, finding.id}, finding);
  }
}

StepStream ImportedJob::Steps() const {
  return [this, rank = job_.ranks.begin(), index = size_t{0}](StoredStep* out) mutable {
    while (rank != job_.ranks.end() && index == rank->second.steps.size()) {
      ++rank;
      index = 0;
    }
    if (rank == job_.ranks.end()) return false;
    v1::RankStep message = StepToProto(rank->second.steps[index++]);
    message.set_source(SourceOf(key_, rank->first));
    *out = {key_,
            0,
            rank->first.value,
            message.source(),
            message.step(),
            message.start_unix_ns(),
            message.duration_ns(),
            message.communication_ns(),
            message.SerializeAsString()};
    return true;
  };
}

Status SaveAll(const std::vector<std::unique_ptr<ImportedJob>>& jobs, Store* store) {
  StoreWrites writes;
  std::vector<StepStream> streams;
  for (const auto& job : jobs) {
    job->AddTo(&writes);
    streams.push_back(job->Steps());
  }
  size_t at = 0;
  const StepStream all = [&](StoredStep* out) {
    while (at < streams.size() && !streams[at](out)) ++at;
    return at < streams.size();
  };
  const Result<ApplyCounts> counts = store->Apply(writes, all);
  return counts.ok() ? Status::Ok() : counts.status();
}

}  // namespace flare::diag
