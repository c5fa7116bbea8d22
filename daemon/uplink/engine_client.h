// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/uplink/spool.h"
#include "flare/v1/control.pb.h"
#include "flare/v1/event.pb.h"

// Carries what the daemon found out to the engine, in order and exactly once.
//
// Steps and hellos are collected into batches (at most one per batch_ms), written to the spool,
// made durable, then sent; they are sent again after every reconnect until the engine acknowledges
// them. States are not durable: of each rank the latest waits, and is sent once there is a
// connection. A lost connection is retried after 0.2 to 5 s, with jitter. After each reconnect the
// hellos of all live ranks go out in a batch before any state.
//
// All functions may be called from any thread and none waits for the network, except Stop. When the
// engine is away for long the spool drops its oldest batches; they are counted.
namespace flare::daemon {

class EngineClient {
 public:
  struct Options {
    std::string address;  // host:port or unix:/path
    std::string node;
    std::string version;
    int batch_ms = 200;
    int backoff_min_ms = 200;
    int backoff_max_ms = 5000;
    int stall_ms = 30000;  // without an acknowledgement or a finished write: connect anew
    // Called from a thread of the client.
    std::function<void(const v1::Control&)> on_control;
    std::function<void()> on_connected;
  };
  struct Counters {
    bool connected = false;
    uint64_t connects = 0;
    uint64_t steps_spooled = 0;
    uint64_t steps_acknowledged = 0;
    uint64_t steps_lost = 0;  // spool full, or damaged on disk
    uint64_t batches_acknowledged = 0;
    uint64_t bytes_sent = 0;
    uint64_t spool_bytes = 0;
    std::string last_error;  // why there is no connection, empty when there is one
  };

  EngineClient(Options options, std::unique_ptr<Spool> spool);
  ~EngineClient();
  EngineClient(const EngineClient&) = delete;
  EngineClient& operator=(const EngineClient&) = delete;

  void Start();
  // Spools what waits and gives the engine until `grace_ms` to acknowledge it. Idempotent.
  void Stop(int grace_ms);

  // Announces a rank now and after each reconnect, until it is removed.
  void AddRank(const v1::RankHello& hello);
  void RemoveRank(uint64_t source);
  // Returns how many steps have been added so far: these are safe when settled_steps() says so.
  uint64_t AddSteps(std::vector<v1::RankStep> steps);
  void SetState(v1::RankState state);

  // All that was added has been acknowledged, and no state waits.
  bool Idle() const;
  // So many of the steps added first are on the spool and synced, or counted as lost.
  uint64_t settled_steps() const;
  Counters counters() const;
  // Cancels a connection on which a write has been stuck for stall_ms. Call about once a second.
  void CheckStall();

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace flare::daemon
