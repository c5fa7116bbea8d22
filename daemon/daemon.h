// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libflare/core/status.h"

// The node daemon as an object: finds the training processes of this node by their segments, drains
// and folds what they recorded, and carries it to the engine.
//
// Start makes its threads, Stop ends them; the functions between may be called from any thread and
// wait for nobody. The engine may be absent, come and go; what cannot be sent waits in the spool. A
// training process is never stopped, signalled or written to, except for the two fields of its
// segment that are the daemon's. Logs through spdlog's default logger.
namespace flare::daemon {

struct DaemonOptions {
  std::string segment_dir;     // made (mode 0700) when missing
  std::string engine_address;  // host:port or unix:/path
  std::string spool_dir;       // made when missing; one daemon at a time
  std::string node;            // the host name when empty
  bool exclusive = true;       // hold a lock on <segment_dir>/flared.lock, with our version in it
  int poll_ms = 10;            // between two polls while rings fill quickly ...
  int idle_poll_ms = 40;       // ... and at most while they do not
  int scan_ms = 200;           // new segments, and whether owners live
  int batch_ms = 200;          // at most one batch of steps in so long
  int linger_ms = 10'000;   // a dead rank's segment is kept at least so long, to be told again ...
  int removal_ms = 60'000;  // ... and at most so long when the engine does not acknowledge
  uint64_t spool_max_bytes = 1ull << 30;
  std::string proc_root = "/proc";
};

struct DaemonCounters {
  bool connected = false;
  std::string connection_error;  // why not connected, empty otherwise
  uint64_t ranks_attached = 0;   // so far
  uint64_t ranks_alive = 0;      // now
  uint64_t segments_rejected = 0;
  uint64_t events_read = 0;
  std::map<std::string, uint64_t> drops;  // by reason
  uint64_t steps_folded = 0;
  uint64_t steps_spooled = 0;
  uint64_t steps_acknowledged = 0;
  uint64_t steps_lost = 0;
  uint64_t states_sent = 0;
  uint64_t bytes_sent = 0;  // messages to the engine, of all kinds
  uint64_t spool_bytes = 0;
};

// A traced process of this node, for `flare doctor` and for ending a hung job.
struct LocalRank {
  std::string job;
  uint32_t rank = 0, world_size = 0, attempt = 0;
  pid_t pid = 0;  // as seen by the daemon, 0 unknown
  uint64_t source = 0;
  bool alive = false;
  std::string phase;   // "running", "exited", "died"
  char run_state = 0;  // as in /proc/PID/stat, 0 unknown
  uint64_t steps = 0;
  bool recording = true;  // false: hooks switched off
  std::string framework;
  std::vector<std::pair<std::string, std::string>> parts;  // of the sensor, and how they fare
};

class Daemon {
 public:
  static Result<std::unique_ptr<Daemon>> Start(DaemonOptions options);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Drains once more, gives the engine about a second to acknowledge, removes the segments of
  // processes that have ended and were reported, joins all threads. Idempotent.
  void Stop();

  DaemonCounters counters() const;
  std::vector<LocalRank> local_ranks() const;

 private:
  class Loop;
  explicit Daemon(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace flare::daemon
