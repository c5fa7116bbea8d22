// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "flare/v1/ingest.grpc.pb.h"

// For tests: an engine's ingest service that keeps what it hears and acknowledges when told to.
namespace flare::daemon {

class FakeEngine : public v1::Ingest::Service {
 public:
  explicit FakeEngine(std::string address) : address_(std::move(address)) { Listen(); }
  ~FakeEngine() override { Shutdown(); }

  void Listen() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  // Breaks all streams at once, as when the engine is killed.
  void Shutdown() {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
  }

  grpc::Status Stream(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::EngineMessage, v1::DaemonMessage>* stream) override {
    v1::DaemonMessage message;
    {
      const std::lock_guard lock(mutex_);
      order_.clear();
      stream_ = stream;
    }
    while (stream->Read(&message)) Take(message, stream);
    const std::lock_guard lock(mutex_);
    stream_ = nullptr;
    ++streams_ended_;
    changed_.notify_all();
    return grpc::Status::OK;
  }

  void SetAcknowledge(bool on) {
    const std::lock_guard lock(mutex_);
    acknowledge_ = on;
  }
  void Send(const v1::EngineMessage& message) {
    const std::lock_guard lock(mutex_);
    if (stream_ != nullptr) stream_->Write(message);
  }

  // Waits for a condition over what was heard, at most ten seconds.
  bool WaitFor(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), condition);
  }

  // Below: read under WaitFor, or when no stream is open.
  std::vector<v1::DaemonHello> hellos_;
  std::map<uint64_t, v1::Batch> batches_;  // each sequence once, as a real engine keeps them
  uint64_t repeated_ = 0;                  // batches that came again
  bool repeated_differ_ = false;           // ... with another content
  std::map<uint64_t, v1::RankState> states_;
  std::vector<v1::RankState> all_states_;
  uint64_t streams_ended_ = 0;
  std::string order_;  // of this stream: h hello, b batch, s states

  // The steps of all sources as a real engine keeps them: the first that comes of each number.
  std::map<std::pair<uint64_t, uint64_t>, v1::RankStep> Steps() const {
    std::map<std::pair<uint64_t, uint64_t>, v1::RankStep> steps;
    for (const auto& [sequence, batch] : batches_) {
      for (const v1::RankStep& step : batch.steps()) {
        steps.try_emplace({step.source(), step.step()}, step);
      }
    }
    return steps;
  }
  size_t StepCount() const { return Steps().size(); }

 private:
  void Take(const v1::DaemonMessage& message,
            grpc::ServerReaderWriter<v1::EngineMessage, v1::DaemonMessage>* stream) {
    const std::lock_guard lock(mutex_);
    if (message.has_hello()) {
      hellos_.push_back(message.hello());
      order_ += 'h';
    } else if (message.has_states()) {
      for (const v1::RankState& state : message.states().states()) {
        states_[state.source()] = state;
        all_states_.push_back(state);
      }
      order_ += 's';
    } else if (message.has_batch()) {
      const v1::Batch& batch = message.batch();
      order_ += 'b';
      const auto [it, fresh] = batches_.try_emplace(batch.sequence(), batch);
      if (!fresh) {
        ++repeated_;
        repeated_differ_ |= it->second.SerializeAsString() != batch.SerializeAsString();
      }
      if (acknowledge_) {
        v1::EngineMessage reply;
        reply.mutable_ack()->set_sequence(batch.sequence());
        stream->Write(reply);
      }
    }
    changed_.notify_all();
  }

  const std::string address_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool acknowledge_ = true;
  grpc::ServerReaderWriter<v1::EngineMessage, v1::DaemonMessage>* stream_ = nullptr;
};

}  // namespace flare::daemon
