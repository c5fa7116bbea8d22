// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/group_commit.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "diag/engine/engine_log.h"
#include "libflare/core/clock.h"

namespace flare::diag {
namespace {

constexpr uint64_t kRetryNs = 1'000'000'000;
constexpr uint64_t kTrimEveryNs = 10'000'000'000;
constexpr uint64_t kTrimAtOnce = 2000;  // steps per transaction: well under the commit interval

// Values of `from` win. std::map::merge keeps those of the target, so it runs the other way round.
template <typename Map>
void MergeNewer(Map from, Map* into) {
  from.merge(*into);
  *into = std::move(from);
}

}  // namespace

void MergeWrites(StoreWrites from, StoreWrites* into) {
  MergeNewer(std::move(from.jobs), &into->jobs);
  MergeNewer(std::move(from.ranks), &into->ranks);
  MergeNewer(std::move(from.findings), &into->findings);
  for (auto& [id, daemon] : from.daemons) {
    StoredDaemon& target = into->daemons[id];
    daemon.last_sequence = std::max(daemon.last_sequence, target.last_sequence);
    target = std::move(daemon);
  }
  if (into->steps.empty()) {
    into->steps = std::move(from.steps);
  } else {
    std::move(from.steps.begin(), from.steps.end(), std::back_inserter(into->steps));
  }
}

GroupCommit::GroupCommit(std::unique_ptr<Store> store, uint32_t interval_ms, Retention retention)
    : store_(std::move(store)),
      interval_ns_(uint64_t{interval_ms} * 1'000'000),
      retention_(retention),
      next_trim_ns_(MonotonicNs() + kTrimEveryNs) {
  thread_ = std::thread([this] { Run(); });
}

GroupCommit::~GroupCommit() { Stop(); }

void GroupCommit::Add(StoreWrites writes, std::function<void()> on_disk) {
  if (writes.empty() && !on_disk) return;
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  MergeWrites(std::move(writes), &pending_);
  if (on_disk) waiters_.push_back(std::move(on_disk));
  wake_.notify_one();
}

void GroupCommit::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

CommitCounters GroupCommit::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

bool GroupCommit::Commit(const StoreWrites& writes) {
  const uint64_t start_ns = MonotonicNs();
  const Result<ApplyCounts> counts = store_->Apply(writes);
  const uint64_t took_ns = MonotonicNs() - start_ns;
  const std::lock_guard lock(mutex_);
  if (!counts.ok()) {
    ++counters_.failed_commits;
    EngineLog().error("not stored, will be tried again: {}", counts.status().message());
    return false;
  }
  ++counters_.commits;
  counters_.steps_stored += counts->steps_stored;
  counters_.steps_repeated += counts->steps_repeated;
  counters_.commit_ns_total += took_ns;
  counters_.commit_ns_longest = std::max(counters_.commit_ns_longest, took_ns);
  return true;
}

void GroupCommit::TrimIfIdle() {
  if (MonotonicNs() < next_trim_ns_) return;
  const Result<uint64_t> removed = store_->Trim(retention_, kTrimAtOnce, RealtimeNs());
  const bool more = removed.ok() && *removed >= kTrimAtOnce;
  next_trim_ns_ = MonotonicNs() + (more ? 0 : kTrimEveryNs);
  if (!removed.ok()) {
    EngineLog().error("old steps not removed: {}", removed.status().message());
    return;
  }
  const std::lock_guard lock(mutex_);
  counters_.steps_trimmed += *removed;
}

void GroupCommit::Run() {
  std::unique_lock lock(mutex_);
  uint64_t next_commit_ns = 0;
  for (;;) {
    const bool waits_for_work = pending_.empty() && waiters_.empty();
    const uint64_t until_ns = waits_for_work ? next_trim_ns_ : next_commit_ns;
    const uint64_t now_ns = MonotonicNs();
    if (!stopping_ && now_ns < until_ns) {
      wake_.wait_for(lock, std::chrono::nanoseconds(until_ns - now_ns));
      continue;
    }
    if (waits_for_work) {
      if (stopping_) return;
      lock.unlock();
      TrimIfIdle();
      lock.lock();
      continue;
    }
    StoreWrites writes = std::exchange(pending_, {});
    Waiters waiters = std::exchange(waiters_, {});
    lock.unlock();
    const bool stored = Commit(writes);
    if (stored) {
      for (const auto& on_disk : waiters) on_disk();
      TrimIfIdle();
    }
    lock.lock();
    next_commit_ns = MonotonicNs() + (stored ? interval_ns_ : kRetryNs);
    if (stored) continue;
    if (stopping_) return;
    MergeWrites(std::exchange(pending_, {}), &writes);
    pending_ = std::move(writes);
    std::move(waiters_.begin(), waiters_.end(), std::back_inserter(waiters));
    waiters_ = std::move(waiters);
  }
}

}  // namespace flare::diag
