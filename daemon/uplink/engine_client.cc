// SPDX-License-Identifier: Apache-2.0
#include "daemon/uplink/engine_client.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "daemon/uplink/engine_link.h"

namespace flare::daemon {
namespace {

using Clock = EngineLink::Clock;
using std::chrono::milliseconds;

constexpr uint32_t kProtocol = 1;
// Well below the 4 MiB that a gRPC server accepts by default.
constexpr size_t kMaxMessageBytes = 1u << 20;
constexpr size_t kMaxPendingBytes = 64u << 20;
constexpr size_t kMaxBatchesInFlight = 64;
constexpr milliseconds kStopSlack{300};

}  // namespace

// The state of the client; one worker thread owns the spool and drives the link, whose thread takes
// what the engine says. Everything below `mutex_` is shared.
class EngineClient::Connection {
 public:
  Connection(Options options, std::unique_ptr<Spool> spool)
      : options_(std::move(options)),
        spool_(std::move(spool)),
        link_({options_.address, options_.backoff_min_ms, options_.backoff_max_ms,
               [this](const v1::EngineMessage& message) { Hear(message); }, [this] { WakeUp(); }}),
        sent_(spool_->acknowledged()),
        acknowledged_by_engine_(spool_->acknowledged()) {}

  void Start() {
    worker_ = std::thread([this] { Run(); });
  }
  void Stop(int grace_ms);
  void AddRank(const v1::RankHello& hello);
  void RemoveRank(uint64_t source);
  uint64_t AddSteps(std::vector<v1::RankStep> steps);
  void SetState(v1::RankState state);
  bool Idle() const;
  uint64_t SettledSteps() const;
  Counters GetCounters() const;
  void CheckStall();

 private:
  void Run();
  bool ShouldEnd();
  Clock::time_point NextWakeup() const;

  void FlushPending();
  void SpoolBatch(v1::Batch* batch);
  void CountLost();

  void DriveLink();
  void Greet();
  void CloseLink(const std::string& why);
  void Hear(const v1::EngineMessage& message);
  void WakeUp();

  void HandleAcknowledgement();
  bool SendBatches();
  bool SendStates();

  const Options options_;
  std::thread worker_;

  // Worker only.
  std::unique_ptr<Spool> spool_;
  EngineLink link_;
  Clock::time_point next_flush_{};
  Clock::time_point last_acknowledgement_{};
  uint64_t sent_;                                // last batch written to this stream
  uint64_t hellos_sequence_ = 0;                 // batch that must go before states
  std::map<uint64_t, uint32_t> steps_in_batch_;  // of batches in flight
  v1::Batch batch_;
  std::string payload_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  bool ended_ = false;
  Clock::time_point stop_deadline_{};
  std::map<uint64_t, v1::RankHello> live_;
  std::vector<v1::RankHello> pending_hellos_;
  std::vector<v1::RankStep> pending_steps_;
  size_t pending_bytes_ = 0;
  uint64_t added_steps_ = 0;
  uint64_t settled_steps_ = 0;
  bool spool_empty_ = true;
  std::map<uint64_t, v1::RankState> states_;
  uint64_t acknowledged_by_engine_;
  Counters counters_;
};

void EngineClient::Connection::Stop(int grace_ms) {
  {
    const std::lock_guard lock(mutex_);
    if (!stop_) {
      stop_ = true;
      stop_deadline_ = Clock::now() + milliseconds(grace_ms);
    }
  }
  wake_.notify_all();
  if (!worker_.joinable()) return;
  {
    // A write that is stuck must not hold us longer than the grace.
    std::unique_lock lock(mutex_);
    if (!wake_.wait_until(lock, stop_deadline_ + kStopSlack, [this] { return ended_; })) {
      link_.Cancel();
    }
  }
  worker_.join();
}

void EngineClient::Connection::AddRank(const v1::RankHello& hello) {
  {
    const std::lock_guard lock(mutex_);
    live_[hello.source()] = hello;
    pending_hellos_.push_back(hello);
  }
  wake_.notify_all();
}

void EngineClient::Connection::RemoveRank(uint64_t source) {
  const std::lock_guard lock(mutex_);
  live_.erase(source);
}

uint64_t EngineClient::Connection::AddSteps(std::vector<v1::RankStep> steps) {
  bool first = false;
  uint64_t added = 0;
  {
    const std::lock_guard lock(mutex_);
    first = pending_steps_.empty() && !steps.empty();
    added = added_steps_ += steps.size();
    for (v1::RankStep& step : steps) {
      const size_t bytes = step.ByteSizeLong();
      if (pending_bytes_ + bytes > kMaxPendingBytes) {
        ++counters_.steps_lost;
        continue;
      }
      pending_bytes_ += bytes;
      pending_steps_.push_back(std::move(step));
    }
  }
  if (first) wake_.notify_all();
  return added;
}

void EngineClient::Connection::SetState(v1::RankState state) {
  {
    const std::lock_guard lock(mutex_);
    const uint64_t source = state.source();
    states_[source] = std::move(state);
  }
  wake_.notify_all();
}

bool EngineClient::Connection::Idle() const {
  const std::lock_guard lock(mutex_);
  return states_.empty() && pending_hellos_.empty() && pending_steps_.empty() && spool_empty_;
}

uint64_t EngineClient::Connection::SettledSteps() const {
  const std::lock_guard lock(mutex_);
  return settled_steps_;
}

EngineClient::Counters EngineClient::Connection::GetCounters() const {
  const std::lock_guard lock(mutex_);
  Counters counters = counters_;
  counters.bytes_sent = link_.bytes_sent();
  return counters;
}

void EngineClient::Connection::CheckStall() { link_.CancelWriteOlderThan(options_.stall_ms); }

void EngineClient::Connection::Run() {
  while (!ShouldEnd()) {
    FlushPending();
    DriveLink();
    HandleAcknowledgement();
    if (link_.up() && !(SendBatches() && SendStates())) CloseLink("connection lost");
    std::unique_lock lock(mutex_);
    spool_empty_ = spool_->empty();
    counters_.spool_bytes = spool_->bytes();
    const bool more_to_send =
        link_.up() && spool_->HasAfter(sent_) && steps_in_batch_.size() < kMaxBatchesInFlight;
    const bool news = stop_ || link_.broken() || more_to_send || !pending_hellos_.empty() ||
                      acknowledged_by_engine_ > spool_->acknowledged() ||
                      (link_.up() && !states_.empty() && sent_ >= hellos_sequence_);
    if (!news) {
      wake_.wait_until(lock, NextWakeup());
    } else if (stop_) {
      wake_.wait_for(lock, milliseconds(1));
    }
  }
  CloseLink("stopped");
  const std::lock_guard lock(mutex_);
  spool_empty_ = spool_->empty();
  ended_ = true;
  wake_.notify_all();
}

bool EngineClient::Connection::ShouldEnd() {
  const std::lock_guard lock(mutex_);
  if (!stop_) return false;
  if (!pending_hellos_.empty() || !pending_steps_.empty()) return Clock::now() >= stop_deadline_;
  if (spool_->empty() && states_.empty()) return true;
  // Without an engine there is nothing to wait for.
  if (!link_.up() && link_.failed()) return true;
  return Clock::now() >= stop_deadline_;
}

Clock::time_point EngineClient::Connection::NextWakeup() const {
  Clock::time_point next = Clock::now() + milliseconds(1000);
  if (!pending_steps_.empty()) next = std::min(next, next_flush_);
  next = std::min(next, link_.next_attempt());
  return next;
}

void EngineClient::Connection::FlushPending() {
  std::vector<v1::RankHello> hellos;
  std::vector<v1::RankStep> steps;
  uint64_t added = 0;
  {
    const std::lock_guard lock(mutex_);
    if (pending_hellos_.empty() && pending_steps_.empty()) return;
    if (pending_hellos_.empty() && !stop_ && Clock::now() < next_flush_) return;
    added = added_steps_;
    hellos.swap(pending_hellos_);
    steps.swap(pending_steps_);
    pending_bytes_ = 0;
    spool_empty_ = false;
  }
  next_flush_ = Clock::now() + milliseconds(options_.batch_ms);
  batch_.Clear();
  size_t bytes = 0;
  for (v1::RankHello& hello : hellos) {
    bytes += hello.ByteSizeLong();
    *batch_.add_hellos() = std::move(hello);
    if (bytes > kMaxMessageBytes) SpoolBatch(&batch_), bytes = 0;
  }
  for (v1::RankStep& step : steps) {
    bytes += step.ByteSizeLong();
    *batch_.add_steps() = std::move(step);
    if (bytes > kMaxMessageBytes) SpoolBatch(&batch_), bytes = 0;
  }
  SpoolBatch(&batch_);
  const Status synced = spool_->Sync();
  const std::lock_guard lock(mutex_);
  if (synced.ok()) {
    settled_steps_ = added;
  } else {
    counters_.last_error = synced.message();
  }
}

void EngineClient::Connection::SpoolBatch(v1::Batch* batch) {
  if (batch->hellos_size() == 0 && batch->steps_size() == 0) return;
  batch->set_sequence(spool_->next_sequence());
  const auto steps = static_cast<uint64_t>(batch->steps_size());
  batch->SerializeToString(&payload_);
  const Result<uint64_t> sequence = spool_->Append(payload_);
  batch->Clear();
  CountLost();
  const std::lock_guard lock(mutex_);
  if (sequence.ok()) {
    counters_.steps_spooled += steps;
  } else {
    counters_.steps_lost += steps;
    counters_.last_error = sequence.status().message();
  }
}

void EngineClient::Connection::CountLost() {
  for (const std::string& payload : spool_->TakeLost()) {
    v1::Batch lost;
    const bool readable = lost.ParseFromString(payload);
    const std::lock_guard lock(mutex_);
    // Of a damaged batch only its existence is known.
    counters_.steps_lost +=
        readable && !payload.empty() ? static_cast<uint64_t>(lost.steps_size()) : 1;
  }
}

void EngineClient::Connection::DriveLink() {
  if (link_.up()) {
    const bool stalled = !steps_in_batch_.empty() &&
                         Clock::now() - last_acknowledgement_ > milliseconds(options_.stall_ms);
    if (link_.broken()) {
      CloseLink("the engine closed the connection");
    } else if (stalled) {
      CloseLink("the engine does not acknowledge");
    }
    return;
  }
  const EngineLink::News news = link_.Drive();
  if (news == EngineLink::News::kOpened) Greet();
  if (news == EngineLink::News::kFailed) CloseLink("cannot reach " + options_.address);
}

void EngineClient::Connection::Greet() {
  last_acknowledgement_ = Clock::now();
  sent_ = spool_->acknowledged();
  v1::DaemonMessage message;
  v1::DaemonHello* hello = message.mutable_hello();
  hello->set_daemon_id(spool_->daemon_id());
  hello->set_node(options_.node);
  hello->set_version(options_.version);
  hello->set_protocol(kProtocol);
  if (!link_.Write(message)) return CloseLink("connection lost");
  {
    // Batches of before go first, in order; then everybody who lives is announced again.
    const std::lock_guard lock(mutex_);
    pending_hellos_.clear();
    for (const auto& [source, live] : live_) pending_hellos_.push_back(live);
    counters_.connected = true;
    counters_.last_error.clear();
    ++counters_.connects;
  }
  FlushPending();
  hellos_sequence_ = spool_->next_sequence() - 1;
  if (options_.on_connected) options_.on_connected();
}

void EngineClient::Connection::CloseLink(const std::string& why) {
  bool polite = false;
  {
    const std::lock_guard lock(mutex_);
    polite = stop_ && spool_->empty();
  }
  const std::string reason = link_.Close(why, polite);
  steps_in_batch_.clear();
  const std::lock_guard lock(mutex_);
  // What this stream said is of no use to the next one.
  acknowledged_by_engine_ = spool_->acknowledged();
  counters_.connected = false;
  counters_.last_error = reason;
}

void EngineClient::Connection::Hear(const v1::EngineMessage& message) {
  if (message.has_ack()) {
    const std::lock_guard lock(mutex_);
    acknowledged_by_engine_ = std::max(acknowledged_by_engine_, message.ack().sequence());
    wake_.notify_all();
  } else if (message.has_control() && options_.on_control) {
    options_.on_control(message.control());
  }
}

void EngineClient::Connection::WakeUp() {
  const std::lock_guard lock(mutex_);
  wake_.notify_all();
}

void EngineClient::Connection::HandleAcknowledgement() {
  if (!link_.up()) return;
  uint64_t sequence = 0;
  {
    const std::lock_guard lock(mutex_);
    sequence = acknowledged_by_engine_;
  }
  // What was never sent on this stream cannot be on the engine's disk by it.
  sequence = std::min(sequence, sent_);
  {
    const std::lock_guard lock(mutex_);
    acknowledged_by_engine_ = sequence;
  }
  if (sequence <= spool_->acknowledged()) return;
  uint64_t steps = 0, batches = 0;
  while (!steps_in_batch_.empty() && steps_in_batch_.begin()->first <= sequence) {
    steps += steps_in_batch_.begin()->second;
    ++batches;
    steps_in_batch_.erase(steps_in_batch_.begin());
  }
  spool_->Acknowledge(sequence);
  last_acknowledgement_ = Clock::now();
  link_.ConfirmWorking();
  const std::lock_guard lock(mutex_);
  counters_.steps_acknowledged += steps;
  counters_.batches_acknowledged += batches;
}

bool EngineClient::Connection::SendBatches() {
  // A few at a time: states must not wait behind an hour of spooled batches.
  constexpr int kAtOnce = 8;
  for (int i = 0; i < kAtOnce && steps_in_batch_.size() < kMaxBatchesInFlight; ++i) {
    if (!spool_->HasAfter(sent_)) return true;
    Result<Spool::Record> record = spool_->ReadAfter(sent_);
    CountLost();
    if (!record.ok()) return true;
    v1::DaemonMessage message;
    if (!message.mutable_batch()->ParseFromString(record->payload)) {
      sent_ = record->sequence;
      continue;
    }
    if (steps_in_batch_.empty()) last_acknowledgement_ = Clock::now();
    steps_in_batch_[record->sequence] = static_cast<uint32_t>(message.batch().steps_size());
    if (!link_.Write(message)) return false;
    sent_ = record->sequence;
  }
  return true;
}

bool EngineClient::Connection::SendStates() {
  if (sent_ < hellos_sequence_) return true;
  std::map<uint64_t, v1::RankState> states;
  {
    const std::lock_guard lock(mutex_);
    // A rank is announced before its first state.
    if (!pending_hellos_.empty()) return true;
    states.swap(states_);
  }
  v1::DaemonMessage message;
  size_t bytes = 0;
  for (auto& [source, state] : states) {
    bytes += state.ByteSizeLong();
    *message.mutable_states()->add_states() = std::move(state);
    if (bytes < kMaxMessageBytes) continue;
    if (!link_.Write(message)) return false;
    message.Clear();
    bytes = 0;
  }
  return bytes == 0 || link_.Write(message);
}

EngineClient::EngineClient(Options options, std::unique_ptr<Spool> spool)
    : connection_(std::make_unique<Connection>(std::move(options), std::move(spool))) {}
EngineClient::~EngineClient() { connection_->Stop(0); }
void EngineClient::Start() { connection_->Start(); }
void EngineClient::Stop(int grace_ms) { connection_->Stop(grace_ms); }
void EngineClient::AddRank(const v1::RankHello& hello) { connection_->AddRank(hello); }
void EngineClient::RemoveRank(uint64_t source) { connection_->RemoveRank(source); }
uint64_t EngineClient::AddSteps(std::vector<v1::RankStep> steps) {
  return connection_->AddSteps(std::move(steps));
}
void EngineClient::SetState(v1::RankState state) { connection_->SetState(std::move(state)); }
uint64_t EngineClient::settled_steps() const { return connection_->SettledSteps(); }
bool EngineClient::Idle() const { return connection_->Idle(); }
EngineClient::Counters EngineClient::counters() const { return connection_->GetCounters(); }
void EngineClient::CheckStall() { connection_->CheckStall(); }

}  // namespace flare::daemon
