// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "libflare/core/status.h"

// The central engine: takes what daemons send, keeps it, finds what is wrong, answers questions.
//
// An object that runs on threads of its own from Start() to Stop(), so that flare-engine and
// `flare run` carry the same one. Several may share a state directory; of advertised ones there is
// at most one. Needs a logger named "flare-engine" to be heard (engine_log.h). Start() and Stop()
// from one thread, the rest from any.
namespace flare::diag {

struct EngineOptions {
  std::string state_dir;
  std::string listen;      // "host:port", port 0 = any, or "unix:/path"
  uint32_t tick_ms = 250;  // how often detectors look
  bool advertise = false;  // write <state_dir>/engine.addr; continue jobs of engines that are gone
  bool insecure = false;   // listen where other machines can reach
  uint32_t commit_interval_ms = 50;  // shortest time between two transactions
  uint64_t kept_steps_per_rank = 2000;
};

struct EngineCounters {
  uint64_t streams = 0;          // open now
  uint64_t streams_refused = 0;  // closed for what they sent
  uint64_t batches = 0;
  uint64_t batches_repeated = 0;
  uint64_t steps = 0;  // received
  uint64_t steps_stored = 0;
  uint64_t steps_repeated = 0;
  uint64_t steps_trimmed = 0;
  uint64_t states = 0;
  uint64_t rejected = 0;  // hellos, steps and states refused one by one
  uint64_t unknown_sources = 0;
  uint64_t commits = 0;
  uint64_t failed_commits = 0;
  uint64_t commit_ns_total = 0;
  uint64_t commit_ns_longest = 0;
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> Start(EngineOptions options);
  ~Engine();  // Stop()
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Where clients reach it: "host:port" with the real port, or "unix:/path".
  std::string address() const;
  // Ends all streams, settles what was received, commits. May be called twice.
  void Stop();
  EngineCounters counters() const;

 private:
  class Parts;
  explicit Engine(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace flare::diag
