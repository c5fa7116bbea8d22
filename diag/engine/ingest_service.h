// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

// The service for daemons: streams in, acknowledgements and requests out.
//
// A stream has at most so many bytes under way between its socket and the disk; beyond that it is
// not read, and the daemon at its other end waits in gRPC's flow control. One that floods so slows
// only itself. What is wrong with a message as a whole closes the stream with INVALID_ARGUMENT and
// the reason; what is wrong with one item in it costs that item (checked_message.h).
namespace grpc {
class Service;
}

namespace flare::diag {

class EngineLoop;

struct StreamCounters {
  std::atomic<uint64_t> open{0};
  std::atomic<uint64_t> refused{0};
};

// `loop` and `counters` must outlive the server that runs the service.
std::unique_ptr<grpc::Service> MakeIngestService(EngineLoop* loop, StreamCounters* counters);

}  // namespace flare::diag
