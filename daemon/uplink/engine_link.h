// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "flare/v1/ingest.grpc.pb.h"

// The connection to the engine: one gRPC stream at a time, made anew when it has broken.
//
//   kDown --its time has come--> kConnecting --ready--> kUp
//     ^------- Close, after 0.2 to 5 s, with jitter ------'
//
// Belongs to one thread, which calls Drive again and again and Close when something is wrong. What
// the engine says is read by a thread of the link, one per stream, which ends before Close returns.
// Functions marked "any thread" may be called from others. Only Drive while connecting (20 ms),
// Write and Close wait for the network.
namespace flare::daemon {

class EngineLink {
 public:
  using Clock = std::chrono::steady_clock;
  enum class State { kDown, kConnecting, kUp };
  enum class News { kNone, kOpened, kFailed };

  struct Options {
    std::string address;  // host:port or unix:/path
    int backoff_min_ms = 200;
    int backoff_max_ms = 5000;
    // From the reading thread: each message, and once that no more will come.
    std::function<void(const v1::EngineMessage&)> on_message;
    std::function<void()> on_broken;
  };

  explicit EngineLink(Options options);
  ~EngineLink();
  EngineLink(const EngineLink&) = delete;
  EngineLink& operator=(const EngineLink&) = delete;

  State state() const { return state_; }
  bool up() const { return state_ == State::kUp; }
  // The last attempts failed, and nothing has worked since.
  bool failed() const { return failed_attempts_ > 0; }
  // When Drive has something to do; the far future when up.
  Clock::time_point next_attempt() const;

  // Brings the link a step nearer to a stream. After kFailed, Close is to be called.
  News Drive();
  // False when the stream is broken.
  bool Write(const v1::DaemonMessage& message);
  // Ends the stream, politely when nothing is left to say. Returns what went wrong, in words that
  // begin with `why`. The next attempt waits longer than the one before.
  std::string Close(const std::string& why, bool polite);
  // The engine has taken something: the next attempt, if one is needed, need not wait.
  void ConfirmWorking();

  // Any thread.
  bool broken() const;  // the engine has ended the stream
  void Cancel();        // makes a Write that is stuck return
  void CancelWriteOlderThan(int stall_ms);
  uint64_t bytes_sent() const { return bytes_sent_.load(std::memory_order_relaxed); }

 private:
  using Stream = grpc::ClientReaderWriter<v1::DaemonMessage, v1::EngineMessage>;
  void BeginConnect();
  void OpenStream();
  void SayGoodbye(bool polite);
  void ReadLoop(Stream* stream);

  const Options options_;
  std::mt19937 random_{std::random_device{}()};
  State state_ = State::kDown;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Ingest::Stub> stub_;
  std::unique_ptr<Stream> stream_;
  std::thread reader_;
  Clock::time_point next_attempt_{};
  Clock::time_point connect_deadline_{};
  int backoff_ms_ = 0;
  int failed_attempts_ = 0;
  std::atomic<uint64_t> bytes_sent_{0};

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable broken_changed_;
  bool broken_ = false;
  std::unique_ptr<grpc::ClientContext> context_;
  Clock::time_point write_began_{};  // epoch = no write in progress
};

}  // namespace flare::daemon
