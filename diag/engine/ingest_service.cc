// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/ingest_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "diag/engine/checked_message.h"
#include "diag/engine/daemon_link.h"
#include "diag/engine/engine_log.h"
#include "diag/engine/engine_loop.h"
#include "diag/engine/message_check.h"
#include "flare/v1/ingest.grpc.pb.h"
#include "libflare/core/clock.h"

namespace flare::diag {
namespace {

// Under way per stream and over all of them. A message always gets through a stream that has none.
constexpr size_t kMaxStreamBytes = 8 << 20;
constexpr size_t kMaxStreamMessages = 512;
constexpr size_t kMaxBytesOfAllStreams = 256 << 20;
constexpr size_t kMaxControls = 1000;  // not yet taken by the daemon

grpc::Status Malformed(const std::string& why) {
  return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, why);
}

// The reactor lives until gRPC is done with the stream; the rest of the engine holds the link,
// which knows whether the reactor is still to be used. Every operation is started under the link's
// lock.
class Link : public DaemonStream {
 public:
  using Reactor = grpc::ServerBidiReactor<v1::DaemonMessage, v1::EngineMessage>;

  Link(Reactor* reactor, StreamCounters* counters) : reactor_(reactor), counters_(counters) {
    ++counters_->open;
  }
  ~Link() override { --counters_->open; }

  void Release(size_t bytes) override {
    const std::lock_guard lock(mutex_);
    --messages_;
    bytes_ -= bytes;
    if (paused_) ReadIfRoom();
  }

  void Acknowledge(uint64_t sequence) override {
    const std::lock_guard lock(mutex_);
    acknowledge_ = acknowledge_ ? std::max(*acknowledge_, sequence) : sequence;
    WriteIfIdle();
  }

  bool SwitchJob(const std::string& job, bool enabled) override {
    const std::lock_guard lock(mutex_);
    if (finish_ || controls_.size() >= kMaxControls) return false;
    v1::JobSwitch* request = controls_.emplace_back().mutable_control()->mutable_job_switch();
    request->set_job(job);
    request->set_enabled(enabled);
    WriteIfIdle();
    return true;
  }

  void Start() {
    const std::lock_guard lock(mutex_);
    ReadIfRoom();
  }

  // The message just read; valid until ReadNext().
  v1::DaemonMessage* incoming() { return &incoming_; }

  // Counts the message as under way until Release() and reads on when there is room.
  void ReadNext(size_t bytes) {
    const std::lock_guard lock(mutex_);
    ++messages_;
    bytes_ += bytes;
    ReadIfRoom();
  }

  void Close(grpc::Status status) {
    const std::lock_guard lock(mutex_);
    if (finish_) return;
    if (!status.ok()) ++counters_->refused;
    finish_ = std::move(status);
    FinishIfIdle();
  }

  void WriteDone(bool ok) {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok && !finish_) finish_ = grpc::Status::OK;  // the daemon is gone
    FinishIfIdle();
    WriteIfIdle();
  }

 private:
  void ReadIfRoom() {
    const size_t share = kMaxBytesOfAllStreams / std::max<uint64_t>(1, counters_->open.load());
    paused_ = messages_ > 0 &&
              (messages_ >= kMaxStreamMessages || bytes_ >= std::min(kMaxStreamBytes, share));
    if (!paused_ && !finish_) reactor_->StartRead(&incoming_);
  }

  void WriteIfIdle() {
    if (writing_ || finish_) return;
    if (acknowledge_) {
      outgoing_.mutable_ack()->set_sequence(*acknowledge_);
      acknowledge_.reset();
    } else if (!controls_.empty()) {
      outgoing_ = std::move(controls_.front());
      controls_.pop_front();
    } else {
      return;
    }
    writing_ = true;
    reactor_->StartWrite(&outgoing_);
  }

  void FinishIfIdle() {
    if (!finish_ || writing_ || finished_) return;
    finished_ = true;
    reactor_->Finish(*finish_);
  }

  std::mutex mutex_;
  Reactor* const reactor_;  // used only before Finish
  StreamCounters* const counters_;
  v1::DaemonMessage incoming_;
  v1::EngineMessage outgoing_;
  std::optional<uint64_t> acknowledge_;
  std::deque<v1::EngineMessage> controls_;
  size_t messages_ = 0;
  size_t bytes_ = 0;
  bool paused_ = false;
  bool writing_ = false;
  bool finished_ = false;
  std::optional<grpc::Status> finish_;  // set: nothing more is read or written
};

class DaemonReactor : public Link::Reactor {
 public:
  DaemonReactor(EngineLoop* loop, StreamCounters* counters)
      : loop_(loop), link_(std::make_shared<Link>(this, counters)) {
    link_->Start();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      link_->Close(grpc::Status::OK);
      return;
    }
    v1::DaemonMessage* message = link_->incoming();
    const size_t bytes = message->ByteSizeLong();
    const grpc::Status status = Take(message, bytes);
    if (status.ok()) {
      link_->ReadNext(bytes);
      return;
    }
    EngineLog().warn("daemon {}: stream closed: {}", daemon_id_, status.error_message());
    link_->Close(status);
  }

  void OnWriteDone(bool ok) override { link_->WriteDone(ok); }
  void OnCancel() override { link_->Close(grpc::Status::OK); }
  void OnDone() override { delete this; }

 private:
  grpc::Status Take(v1::DaemonMessage* message, size_t bytes) {
    if (message->has_hello()) return TakeHello(message->mutable_hello(), bytes);
    if (daemon_id_.empty()) return Malformed("a stream begins with a DaemonHello");
    if (message->has_batch()) return TakeBatch(message->mutable_batch(), bytes);
    if (message->has_states()) return TakeStates(message->mutable_states(), bytes);
    return Malformed("a message that says nothing this engine knows");
  }

  grpc::Status TakeHello(v1::DaemonHello* hello, size_t bytes) {
    if (!daemon_id_.empty()) return Malformed("a second DaemonHello on one stream");
    if (Status s = CheckDaemonHello(hello); !s.ok()) return Malformed(s.message());
    daemon_id_ = hello->daemon_id();
    loop_->Post([link = link_, daemon = daemon_, id = daemon_id_, node = hello->node(),
                 version = hello->version(), bytes](EngineLoop::Context& engine) {
      *daemon = engine.jobs.FindOrAddDaemon(id);
      Daemon& d = **daemon;
      d.node = node;
      d.version = version;
      d.stream = link;
      d.last_heard_unix_ns = engine.now_unix_ns;
      if (d.last_sequence == 0) {
        const Result<std::optional<StoredDaemon>> stored = engine.reader.FindDaemon(id);
        if (stored.ok() && *stored) d.last_sequence = (*stored)->last_sequence;
      }
      EngineLog().info("daemon {} on node {} has connected", id, node);
      link->Release(bytes);
    });
    return grpc::Status::OK;
  }

  grpc::Status TakeBatch(v1::Batch* message, size_t bytes) {
    constexpr uint64_t kMaxSequence = uint64_t{1} << 62;
    const uint64_t sequence = message->sequence();
    if (sequence == 0 || sequence > kMaxSequence) {
      return Malformed("batch number " + std::to_string(sequence));
    }
    auto batch = std::make_shared<CheckedBatch>(CheckBatch(std::move(*message), RealtimeNs()));
    loop_->Post([link = link_, daemon = daemon_, batch = std::move(batch), sequence,
                 bytes](EngineLoop::Context& engine) {
      StoreWrites writes;
      engine.jobs.TakeBatch(*daemon, std::move(*batch), engine.now_unix_ns, &writes);
      engine.commit.Add(std::move(writes), [link, sequence, bytes] {
        link->Acknowledge(sequence);
        link->Release(bytes);
      });
    });
    return grpc::Status::OK;
  }

  grpc::Status TakeStates(v1::StateUpdate* message, size_t bytes) {
    auto states = std::make_shared<CheckedStates>(
        CheckStates(std::move(*message->mutable_states()), RealtimeNs()));
    loop_->Post([link = link_, daemon = daemon_, states = std::move(states),
                 bytes](EngineLoop::Context& engine) {
      engine.jobs.TakeStates(*daemon, std::move(*states), engine.now_unix_ns);
      link->Release(bytes);
    });
    return grpc::Status::OK;
  }

  EngineLoop* const loop_;
  const std::shared_ptr<Link> link_;
  // Filled and read by tasks of the loop only; the hello's task is the first.
  const std::shared_ptr<std::shared_ptr<Daemon>> daemon_ =
      std::make_shared<std::shared_ptr<Daemon>>();
  std::string daemon_id_;  // empty before the hello
};

class IngestService : public v1::Ingest::CallbackService {
 public:
  IngestService(EngineLoop* loop, StreamCounters* counters) : loop_(loop), counters_(counters) {}

  Link::Reactor* Stream(grpc::CallbackServerContext*) override {
    return new DaemonReactor(loop_, counters_);
  }

 private:
  EngineLoop* const loop_;
  StreamCounters* const counters_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeIngestService(EngineLoop* loop, StreamCounters* counters) {
  return std::make_unique<IngestService>(loop, counters);
}

}  // namespace flare::diag
