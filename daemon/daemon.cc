// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "daemon/part_names.h"
#include "daemon/rank_registry.h"
#include "daemon/uplink/engine_client.h"
#include "daemon/version.h"

namespace flare::daemon {
namespace {

constexpr int kStopGraceMs = 1000;
constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kHousekeepingNs = 1000 * kNsPerMs;
constexpr size_t kMaxSwitchedJobs = 1024;

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

// The descriptor that holds the lock, or why there is none.
Result<int> LockDirectory(const std::string& directory) {
  const std::string path = directory + "/flared.lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return Status::Error("cannot open " + path + ": " + std::strerror(errno));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return Status::Error("another flared already serves " + directory + " (it holds " + path + ")");
  }
  // `flare doctor` reads which release serves here.
  const std::string text = std::string(kVersion) + "\n";
  if (ftruncate(fd, 0) != 0 ||
      pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    spdlog::warn("cannot write {}: {}", path, std::strerror(errno));
  }
  return fd;
}

Status MakeDirectory(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(directory).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return Status::Ok();
  return Status::Error("cannot make " + directory + ": " + std::strerror(errno));
}

}  // namespace

// The thread that scans, drains and folds. The registry and its ranks are its own; what others may
// ask for is copied out under mutex_.
class Daemon::Loop {
 public:
  Loop(DaemonOptions options, int lock_fd, std::unique_ptr<Spool> spool);
  ~Loop();

  void Start();
  void Stop();
  DaemonCounters counters() const;
  std::vector<LocalRank> local_ranks() const;

 private:
  void Run();
  bool PollOnce(bool scan);  // false when more events wait
  void ReleaseSettled();
  void Announce(TrackedRank* rank);
  int NextPauseMs(int last_ms) const;
  void SendStates(uint64_t now_ns);
  void RemoveSettled(uint64_t now_ns, bool stopping);
  void ApplySwitches();
  void OnControl(const v1::Control& control);
  void Publish();
  void AddDrops(const TrackedRank& rank, DaemonCounters* counters) const;

  const DaemonOptions options_;
  const int lock_fd_;
  RankRegistry registry_;
  EngineClient client_;
  std::thread thread_;
  std::vector<v1::RankStep> steps_;
  DaemonCounters removed_;  // sums over ranks that are gone
  uint64_t ranks_attached_ = 0;
  uint64_t states_sent_ = 0;
  uint64_t next_housekeeping_ns_ = 0;
  std::map<std::string, bool> switches_;  // what the engine last asked for, by job

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  bool reconnected_ = false;
  std::vector<v1::JobSwitch> new_switches_;
  DaemonCounters published_;
  std::vector<LocalRank> published_ranks_;
};

Daemon::Loop::Loop(DaemonOptions options, int lock_fd, std::unique_ptr<Spool> spool)
    : options_(std::move(options)),
      lock_fd_(lock_fd),
      registry_(options_.segment_dir, options_.node, ProcessProbe(options_.proc_root)),
      client_(
          [this] {
            EngineClient::Options o;
            o.address = options_.engine_address;
            o.node = options_.node;
            o.version = kVersion;
            o.batch_ms = options_.batch_ms;
            o.on_control = [this](const v1::Control& control) { OnControl(control); };
            o.on_connected = [this] {
              const std::lock_guard lock(mutex_);
              reconnected_ = true;
            };
            return o;
          }(),
          std::move(spool)) {}

Daemon::Loop::~Loop() {
  Stop();
  if (lock_fd_ >= 0) close(lock_fd_);
}

void Daemon::Loop::Start() {
  client_.Start();
  thread_ = std::thread([this] { Run(); });
}

void Daemon::Loop::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Daemon::Loop::Run() {
  uint64_t next_scan_ns = 0;
  int pause_ms = options_.poll_ms;
  while (true) {
    const uint64_t now_ns = MonotonicNs();
    const bool scan = now_ns >= next_scan_ns;
    if (scan) next_scan_ns = now_ns + static_cast<uint64_t>(options_.scan_ms) * kNsPerMs;
    const bool idle = PollOnce(scan);
    std::unique_lock lock(mutex_);
    if (stop_) break;
    pause_ms = NextPauseMs(pause_ms);
    if (idle) wake_.wait_for(lock, std::chrono::milliseconds(pause_ms), [this] { return stop_; });
    if (stop_) break;
  }
  // What has been written until now is folded (a boundary needs a second poll), and the dead are
  // reported.
  for (int i = 0; i < 3; ++i) PollOnce(true);
  client_.Stop(kStopGraceMs);
  ReleaseSettled();
  RemoveSettled(MonotonicNs(), true);
  Publish();
}

// Each poll costs the job's machine a wake-up, so we poll no faster than the rings fill: a ring
// that is an eighth full in one pause has seven more before it overflows.
int Daemon::Loop::NextPauseMs(int last_ms) const {
  constexpr double kBusy = 1.0 / 8, kQuiet = 1.0 / 32;
  // Without ranks there is nothing to drain before the next scan.
  if (registry_.ranks().empty()) return options_.scan_ms;
  double fill = 0.0;
  for (const auto& rank : registry_.ranks()) fill = std::max(fill, rank->ring_fill());
  if (fill > kBusy) return options_.poll_ms;
  if (fill > kQuiet) return std::min(last_ms, options_.idle_poll_ms);
  return std::min(2 * last_ms, options_.idle_poll_ms);
}

bool Daemon::Loop::PollOnce(bool scan) {
  const uint64_t now_ns = MonotonicNs();
  if (scan) {
    for (TrackedRank* rank : registry_.Scan(now_ns)) Announce(rank);
    for (const auto& rank : registry_.ranks()) {
      if (rank->TakeHelloChange()) client_.AddRank(rank->Hello());
    }
  }
  bool all_read = true;
  for (const auto& rank : registry_.ranks()) all_read &= rank->Poll(&steps_);
  const uint64_t ticket = client_.AddSteps(std::move(steps_));
  steps_.clear();
  for (const auto& rank : registry_.ranks()) rank->NoteHandover(ticket);
  ReleaseSettled();
  ApplySwitches();
  SendStates(MonotonicNs());
  if (scan) {
    RemoveSettled(now_ns, false);
    Publish();
  }
  if (now_ns >= next_housekeeping_ns_) {
    next_housekeeping_ns_ = now_ns + kHousekeepingNs;
    client_.CheckStall();
  }
  return all_read;
}

void Daemon::Loop::ReleaseSettled() {
  const uint64_t settled = client_.settled_steps();
  for (const auto& rank : registry_.ranks()) rank->ReleaseSettled(settled);
}

void Daemon::Loop::Announce(TrackedRank* rank) {
  const SegmentIdentity& id = rank->identity();
  spdlog::info("attached to rank {} of {} of job {}, pid {}", id.rank, id.world_size, id.job,
               id.pid);
  ++ranks_attached_;
  rank->TakeHelloChange();
  client_.AddRank(rank->Hello());
  const auto wanted = switches_.find(id.job);
  if (wanted != switches_.end() && !wanted->second) rank->SetEnabled(false);
}

void Daemon::Loop::SendStates(uint64_t now_ns) {
  {
    const std::lock_guard lock(mutex_);
    if (reconnected_) {
      for (const auto& rank : registry_.ranks()) rank->ForceState();
    }
    reconnected_ = false;
  }
  for (const auto& rank : registry_.ranks()) {
    if (!rank->StateDue(now_ns)) continue;
    client_.SetState(rank->BuildState(now_ns));
    ++states_sent_;
  }
}

void Daemon::Loop::RemoveSettled(uint64_t now_ns, bool stopping) {
  const bool delivered = client_.Idle();
  std::vector<const TrackedRank*> done;
  for (const auto& rank : registry_.ranks()) {
    if (!rank->settled()) continue;
    const uint64_t age_ms = (now_ns - rank->ended_ns()) / kNsPerMs;
    const bool told =
        delivered && (stopping || age_ms >= static_cast<uint64_t>(options_.linger_ms));
    if (told || age_ms >= static_cast<uint64_t>(options_.removal_ms)) done.push_back(rank.get());
  }
  for (const TrackedRank* rank : done) {
    removed_.events_read += rank->events_read();
    removed_.steps_folded += rank->steps_folded();
    AddDrops(*rank, &removed_);
    client_.RemoveRank(rank->identity().source_id);
    registry_.Remove(rank);
  }
}

void Daemon::Loop::ApplySwitches() {
  std::vector<v1::JobSwitch> news;
  {
    const std::lock_guard lock(mutex_);
    news.swap(new_switches_);
  }
  for (const v1::JobSwitch& change : news) {
    if (switches_.size() >= kMaxSwitchedJobs && !switches_.contains(change.job()))
      switches_.clear();
    switches_[change.job()] = change.enabled();
    spdlog::info("job {}: recording switched {}", change.job(), change.enabled() ? "on" : "off");
    for (const auto& rank : registry_.ranks()) {
      if (rank->identity().job == change.job()) rank->SetEnabled(change.enabled());
    }
  }
}

void Daemon::Loop::OnControl(const v1::Control& control) {
  if (!control.has_job_switch()) return;
  const std::lock_guard lock(mutex_);
  if (new_switches_.size() < kMaxSwitchedJobs) new_switches_.push_back(control.job_switch());
}

void Daemon::Loop::AddDrops(const TrackedRank& rank, DaemonCounters* counters) const {
  for (const auto& [reason, count] : rank.Drops()) {
    if (count != 0) counters->drops[reason] += count;
  }
}

void Daemon::Loop::Publish() {
  DaemonCounters now = removed_;
  std::vector<LocalRank> ranks;
  for (const auto& rank : registry_.ranks()) {
    now.events_read += rank->events_read();
    now.steps_folded += rank->steps_folded();
    AddDrops(*rank, &now);
    LocalRank local;
    const SegmentIdentity& id = rank->identity();
    local.job = id.job;
    local.rank = id.rank;
    local.world_size = id.world_size;
    local.attempt = id.attempt;
    local.pid = rank->pid();
    local.source = id.source_id;
    local.alive = rank->ended_ns() == 0;
    const auto life = rank->life();
    local.phase = life == v1::ProcessState::LIFE_RUNNING  ? "running"
                  : life == v1::ProcessState::LIFE_EXITED ? "exited"
                                                          : "died";
    local.run_state = rank->owner().run_state;
    local.steps = rank->facts().steps;
    local.recording = rank->facts().enabled;
    local.framework = rank->facts().framework;
    google::protobuf::RepeatedPtrField<v1::PartStatus> parts;
    AddParts(rank->facts(), &parts);
    for (const v1::PartStatus& part : parts) local.parts.emplace_back(part.part(), part.state());
    now.ranks_alive += local.alive;
    ranks.push_back(std::move(local));
  }
  now.ranks_attached = ranks_attached_;
  now.segments_rejected = registry_.rejected();
  now.states_sent = states_sent_;
  const std::lock_guard lock(mutex_);
  published_ = std::move(now);
  published_ranks_ = std::move(ranks);
}

DaemonCounters Daemon::Loop::counters() const {
  const EngineClient::Counters uplink = client_.counters();
  const std::lock_guard lock(mutex_);
  DaemonCounters counters = published_;
  counters.connected = uplink.connected;
  counters.connection_error = uplink.last_error;
  counters.steps_spooled = uplink.steps_spooled;
  counters.steps_acknowledged = uplink.steps_acknowledged;
  counters.steps_lost = uplink.steps_lost;
  counters.bytes_sent = uplink.bytes_sent;
  counters.spool_bytes = uplink.spool_bytes;
  return counters;
}

std::vector<LocalRank> Daemon::Loop::local_ranks() const {
  const std::lock_guard lock(mutex_);
  return published_ranks_;
}

Result<std::unique_ptr<Daemon>> Daemon::Start(DaemonOptions options) {
  if (options.node.empty()) options.node = HostName();
  Status status = MakeDirectory(options.segment_dir);
  if (!status.ok()) return status;
  int lock_fd = -1;
  if (options.exclusive) {
    Result<int> lock = LockDirectory(options.segment_dir);
    if (!lock.ok()) return lock.status();
    lock_fd = *lock;
  }
  Spool::Options spool_options;
  spool_options.max_bytes = options.spool_max_bytes;
  Result<std::unique_ptr<Spool>> spool = Spool::Open(options.spool_dir, spool_options);
  if (!spool.ok()) {
    if (lock_fd >= 0) close(lock_fd);
    return spool.status();
  }
  auto loop = std::make_unique<Loop>(std::move(options), lock_fd, std::move(spool).value());
  loop->Start();
  return std::unique_ptr<Daemon>(new Daemon(std::move(loop)));
}

Daemon::Daemon(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
Daemon::~Daemon() = default;
void Daemon::Stop() { loop_->Stop(); }
DaemonCounters Daemon::counters() const { return loop_->counters(); }
std::vector<LocalRank> Daemon::local_ranks() const { return loop_->local_ranks(); }

}  // namespace flare::daemon
