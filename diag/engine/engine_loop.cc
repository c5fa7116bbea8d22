// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/engine_loop.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "diag/engine/engine_log.h"
#include "libflare/core/clock.h"

namespace flare::diag {
namespace {

constexpr uint64_t kReportEveryNs = 200'000'000;
constexpr uint64_t kUrgentLookEveryNs = 20'000'000;
constexpr uint64_t kForgetEveryNs = 10'000'000'000;
constexpr uint32_t kDefaultHeartbeatMs = 1000;

}  // namespace

// What the store knows of jobs that are not in memory; the store's errors are logged here.
class EngineLoop::Archive : public JobArchive {
 public:
  explicit Archive(EngineLoop* loop) : loop_(loop) {}

  std::optional<JobMemory> LoadNewest(const std::string& identity) override {
    const auto key = Value(loop_->reader_->FindJob(identity));
    if (!key || !*key) return std::nullopt;
    std::optional<JobMemory> memory = Load(**key);
    // FindJob also takes names.
    if (!memory || memory->job.summary.job() != identity) return std::nullopt;
    const bool free = memory->job.summary.state() == "ended" ||
                      loop_->owner_is_gone_(memory->job.owner) ||
                      memory->job.owner == loop_->owner_;
    return free ? std::move(memory) : std::nullopt;
  }

  std::optional<JobMemory> Load(JobKey key) override {
    return Value(loop_->reader_->LoadJob(key, kKeptSteps));
  }

  std::optional<SourcePlace> FindSource(SourceId source) override {
    return Value(loop_->reader_->FindSource(source)).value_or(std::nullopt);
  }

 private:
  template <typename T>
  static std::optional<T> Value(Result<T> result) {
    if (result.ok()) return std::move(*result);
    EngineLog().error("not read: {}", result.status().message());
    return std::nullopt;
  }

  EngineLoop* const loop_;
};

EngineLoop::EngineLoop(std::string owner, std::unique_ptr<Store> reader,
                       std::unique_ptr<GroupCommit> commit, uint32_t tick_ms,
                       std::function<bool(const std::string&)> owner_is_gone)
    : owner_(owner),
      owner_is_gone_(std::move(owner_is_gone)),
      tick_ns_(uint64_t{std::max(tick_ms, 1u)} * 1'000'000),
      commit_(std::move(commit)),
      reader_(std::move(reader)),
      archive_(std::make_unique<Archive>(this)),
      jobs_(std::move(owner), archive_.get()) {}

EngineLoop::~EngineLoop() { Stop(); }

Status EngineLoop::AdoptUnfinishedJobs() {
  const Result<std::vector<StoredJob>> unfinished = reader_->UnfinishedJobs();
  if (!unfinished.ok()) return unfinished.status();
  for (const StoredJob& job : *unfinished) {
    const uint64_t forgotten_ns = job.summary.last_seen_unix_ns() + kForgetLostAfterNs;
    if (forgotten_ns < RealtimeNs() || !owner_is_gone_(job.owner)) continue;
    Result<JobMemory> memory = reader_->LoadJob(job.key, kKeptSteps);
    if (!memory.ok()) return memory.status();
    jobs_.Adopt(std::move(*memory));
    EngineLog().info("job {}: continued from the store", job.summary.job());
  }
  return Status::Ok();
}

void EngineLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void EngineLoop::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  commit_->Stop();
}

void EngineLoop::Post(Task task) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  tasks_.push_back(std::move(task));
  if (tasks_.size() == 1) wake_.notify_one();
}

TableCounters EngineLoop::table_counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void EngineLoop::Watch(JobKey job, uint32_t heartbeat_ms, std::shared_ptr<ReportWatcher> watcher,
                       std::shared_ptr<const v1::Report> stored) {
  const uint64_t heartbeat = heartbeat_ms == 0 ? kDefaultHeartbeatMs : heartbeat_ms;
  subscriptions_.push_back(
      {job, heartbeat * 1'000'000, std::move(watcher), std::move(stored), 0, 0});
}

void EngineLoop::Run() {
  uint64_t next_look_ns = MonotonicNs() + tick_ns_;
  uint64_t last_look_ns = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    const uint64_t wait_until_ns =
        jobs_.urgent() ? std::min(next_look_ns, last_look_ns + kUrgentLookEveryNs) : next_look_ns;
    const uint64_t before_ns = MonotonicNs();
    if (tasks_.empty() && !stopping_ && before_ns < wait_until_ns) {
      wake_.wait_for(lock, std::chrono::nanoseconds(wait_until_ns - before_ns));
    }
    std::vector<Task> tasks = std::exchange(tasks_, {});
    const bool last = stopping_;
    lock.unlock();
    for (const Task& task : tasks) {
      Context context{jobs_, *reader_, *commit_, RealtimeNs()};
      task(context);
    }
    const uint64_t now_ns = MonotonicNs();
    const bool tick = now_ns >= next_look_ns;
    const bool urgent = jobs_.urgent() && now_ns >= last_look_ns + kUrgentLookEveryNs;
    if (tick || urgent || last) {
      StoreWrites writes;
      tick || last ? jobs_.Look(RealtimeNs(), &writes) : jobs_.LookAtUrgent(RealtimeNs(), &writes);
      commit_->Add(std::move(writes));
      last_look_ns = MonotonicNs();
      if (tick) next_look_ns = last_look_ns + tick_ns_;
    }
    SendReports(MonotonicNs());
    lock.lock();
    counters_ = jobs_.counters();
    if (last && tasks_.empty()) return;
  }
}

void EngineLoop::SendReports(uint64_t now_ns) {
  if (now_ns >= next_forget_ns_) {
    std::set<JobKey> watched;
    for (const Subscription& s : subscriptions_) watched.insert(s.job);
    jobs_.Forget(RealtimeNs(), watched);
    next_forget_ns_ = now_ns + kForgetEveryNs;
  }
  std::map<JobKey, std::shared_ptr<const v1::Report>> fresh;
  std::erase_if(subscriptions_, [&](Subscription& s) {
    const LiveJob* job = jobs_.Find(s.job);
    const uint64_t revision = job ? job->revision() : 0;
    const bool changed = revision != s.sent_revision;
    const bool due =
        s.sent_ns == 0 || now_ns >= s.sent_ns + (changed ? kReportEveryNs : s.heartbeat_ns);
    if (!due) return false;
    if (job) {
      std::shared_ptr<const v1::Report>& report = fresh[s.job];
      if (!report) report = std::make_shared<const v1::Report>(job->Report(RealtimeNs()));
      s.report = report;
    }
    s.sent_ns = now_ns;
    s.sent_revision = revision;
    return !s.report || !s.watcher->Take(s.report);
  });
}

}  // namespace flare::diag
