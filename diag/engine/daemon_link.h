// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

// A daemon as the engine knows it, and the way back to it.
namespace flare::diag {

// One open stream of a daemon. Thread-safe; calls after the stream has closed do nothing.
class DaemonStream {
 public:
  virtual ~DaemonStream() = default;
  // A message of `bytes` has been dealt with: the stream may read on.
  virtual void Release(size_t bytes) = 0;
  // This batch and all before it of this stream are on disk.
  virtual void Acknowledge(uint64_t sequence) = 0;
  // False when the stream is closed.
  virtual bool SwitchJob(const std::string& job, bool enabled) = 0;
};

// Owned by the thread of the engine's loop.
struct Daemon {
  std::string id;
  std::string node;
  std::string version;
  uint64_t last_heard_unix_ns = 0;  // by the engine's clock
  uint64_t last_sequence = 0;
  size_t sources = 0;                  // processes it has introduced and that are in memory
  std::weak_ptr<DaemonStream> stream;  // the newest
};

}  // namespace flare::diag
