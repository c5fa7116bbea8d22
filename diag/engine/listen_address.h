// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "libflare/core/status.h"

// Where an engine may listen: "host:port" (port 0: any free one) or "unix:/path".
namespace flare::diag {

struct ListenAddress {
  std::string grpc;         // as gRPC wants it
  std::string host;         // empty for a Unix socket
  std::string socket_path;  // empty for TCP
};

// Addresses that other machines can reach are refused unless `insecure`: there is no encryption and
// no authentication yet.
Result<ListenAddress> ParseListenAddress(const std::string& text, bool insecure);

}  // namespace flare::diag
