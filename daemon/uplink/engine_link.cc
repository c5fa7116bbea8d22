// SPDX-License-Identifier: Apache-2.0
#include "daemon/uplink/engine_link.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>

namespace flare::daemon {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxReceivedBytes = 1u << 20;
constexpr milliseconds kConnectTimeout{2000};
constexpr milliseconds kConnectPoll{20};
constexpr milliseconds kGoodbye{300};

}  // namespace

EngineLink::EngineLink(Options options) : options_(std::move(options)) {}

EngineLink::~EngineLink() {
  if (state_ != State::kDown) Close("", false);
}

EngineLink::Clock::time_point EngineLink::next_attempt() const {
  switch (state_) {
    case State::kDown:
      return next_attempt_;
    case State::kConnecting:
      return Clock::now();
    case State::kUp:
      break;
  }
  return Clock::time_point::max();
}

EngineLink::News EngineLink::Drive() {
  const auto now = Clock::now();
  if (state_ == State::kDown && now >= next_attempt_) BeginConnect();
  if (state_ != State::kConnecting) return News::kNone;
  // Waiting here and not elsewhere: a channel makes progress only while some thread waits in gRPC.
  grpc_connectivity_state state = channel_->GetState(true);
  if (state != GRPC_CHANNEL_READY &&
      channel_->WaitForStateChange(state, std::chrono::system_clock::now() + kConnectPoll)) {
    state = channel_->GetState(false);
  }
  if (state == GRPC_CHANNEL_READY) {
    OpenStream();
    return News::kOpened;
  }
  const bool failed = state == GRPC_CHANNEL_TRANSIENT_FAILURE || now >= connect_deadline_;
  return failed ? News::kFailed : News::kNone;
}

void EngineLink::BeginConnect() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxReceivedBytes));
  channel_ =
      grpc::CreateCustomChannel(options_.address, grpc::InsecureChannelCredentials(), arguments);
  connect_deadline_ = Clock::now() + kConnectTimeout;
  state_ = State::kConnecting;
}

void EngineLink::OpenStream() {
  stub_ = v1::Ingest::NewStub(channel_);
  {
    const std::lock_guard lock(mutex_);
    context_ = std::make_unique<grpc::ClientContext>();
    broken_ = false;
  }
  stream_ = stub_->Stream(context_.get());
  Stream* const stream = stream_.get();
  state_ = State::kUp;
  reader_ = std::thread([this, stream] { ReadLoop(stream); });
}

void EngineLink::ReadLoop(Stream* stream) {
  v1::EngineMessage message;
  while (stream->Read(&message)) options_.on_message(message);
  {
    const std::lock_guard lock(mutex_);
    broken_ = true;
  }
  broken_changed_.notify_all();
  options_.on_broken();
}

bool EngineLink::Write(const v1::DaemonMessage& message) {
  {
    const std::lock_guard lock(mutex_);
    write_began_ = Clock::now();
  }
  bytes_sent_.fetch_add(message.ByteSizeLong(), std::memory_order_relaxed);
  const bool ok = stream_->Write(message);
  const std::lock_guard lock(mutex_);
  write_began_ = Clock::time_point{};
  return ok;
}

void EngineLink::SayGoodbye(bool polite) {
  if (polite) {
    stream_->WritesDone();
    std::unique_lock lock(mutex_);
    broken_changed_.wait_for(lock, kGoodbye, [this] { return broken_; });
  }
  Cancel();
}

std::string EngineLink::Close(const std::string& why, bool polite) {
  std::string reason = why;
  const bool was_up = up();
  if (stream_ != nullptr) {
    SayGoodbye(polite && was_up);
    reader_.join();
    const grpc::Status status = stream_->Finish();
    if (!status.ok() && status.error_code() != grpc::StatusCode::CANCELLED) {
      reason += ": " + status.error_message();
    }
    stream_.reset();
    const std::lock_guard lock(mutex_);
    context_.reset();
    broken_ = false;
  }
  stub_.reset();
  channel_.reset();
  state_ = State::kDown;
  failed_attempts_ = was_up && backoff_ms_ == 0 ? 0 : failed_attempts_ + 1;
  backoff_ms_ = std::clamp(backoff_ms_ * 2, options_.backoff_min_ms, options_.backoff_max_ms);
  std::uniform_real_distribution<double> jitter(0.5, 1.0);
  next_attempt_ = Clock::now() + milliseconds(static_cast<int>(backoff_ms_ * jitter(random_)));
  return reason;
}

void EngineLink::ConfirmWorking() {
  backoff_ms_ = 0;
  failed_attempts_ = 0;
}

bool EngineLink::broken() const {
  const std::lock_guard lock(mutex_);
  return broken_;
}

void EngineLink::Cancel() {
  const std::lock_guard lock(mutex_);
  if (context_ != nullptr) context_->TryCancel();
}

void EngineLink::CancelWriteOlderThan(int stall_ms) {
  const std::lock_guard lock(mutex_);
  if (write_began_ == Clock::time_point{} || context_ == nullptr) return;
  if (Clock::now() - write_began_ > milliseconds(stall_ms)) context_->TryCancel();
}

}  // namespace flare::daemon
