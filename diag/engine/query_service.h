// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

// The service for the command line: reports, once or as they change, and requests about jobs. Jobs
// that have left memory are answered from the store.
namespace grpc {
class Service;
}

namespace flare::diag {

class EngineLoop;

// `loop` must outlive the server that runs the service.
std::unique_ptr<grpc::Service> MakeQueryService(EngineLoop* loop);

}  // namespace flare::diag
