// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diag/cli/process_identity.h"
#include "libflare/core/status.h"

// How commands in other terminals find an engine: files in the state folder.
//
//   runs/<job>.<pid>/endpoint.json   a `flare run` with its embedded engine; removed at its end
//   engine.addr                     a standalone flare-engine, written by it
//
// A record of a process that is gone, or of another machine or boot, is ignored.
namespace flare::cli {

struct Endpoint {
  std::string job;
  std::string name;
  std::string engine;  // unix:/path or host:port
  ProcessIdentity owner;
};

// The record of this process, removed with the object.
class PublishedEndpoint {
 public:
  static Result<PublishedEndpoint> Publish(const std::string& run_dir, const Endpoint& endpoint);
  PublishedEndpoint(PublishedEndpoint&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  PublishedEndpoint& operator=(PublishedEndpoint&&) = delete;
  ~PublishedEndpoint();

 private:
  explicit PublishedEndpoint(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Endpoints whose owner runs, newest first. Removes records that are certainly stale.
std::vector<Endpoint> RunningEndpoints(const std::string& state_dir);

// Address in engine.addr, whether or not anybody still answers there.
std::optional<std::string> AdvertisedEngine(const std::string& state_dir);

// Whether something accepts connections at `address` within `timeout_ms`. Starts no thread.
bool Accepts(const std::string& address, int timeout_ms);

}  // namespace flare::cli
