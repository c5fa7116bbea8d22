// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/exceptions.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace flare::diag {
namespace {

// Parts of what gloo, NCCL, TCPStore and the socket library say when a peer has gone.
constexpr std::array<std::string_view, 16> kPeerLostTexts = {"onnection closed by peer",
                                                             "onnection reset",
                                                             "onnection refused",
                                                             "onnection was",
                                                             "ocket closed",
                                                             "ocket Timeout",
                                                             "roken pipe",
                                                             "pair closure",
                                                             "gloo/transport",
                                                             "imed out",
                                                             "ncclRemoteError",
                                                             "remote process exited",
                                                             "recvValue failed",
                                                             "sendBytes failed",
                                                             "recvBytes failed",
                                                             "wait timeout"};

constexpr std::array<std::string_view, 5> kPeerLostTypes = {
    "DistNetworkError", "DistBackendError", "ConnectionResetError", "BrokenPipeError",
    "ConnectionRefusedError"};

constexpr std::array<std::string_view, 3> kCancelledTypes = {"KeyboardInterrupt", "SignalException",
                                                             "SystemExit"};

template <size_t n>
bool AnyIn(std::string_view text, const std::array<std::string_view, n>& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

}  // namespace

Raised RaisedBy(const ProcessState& process) {
  if (process.exception_type.empty()) {
    return process.life == Life::kExited && process.exit_code != 0 ? Raised::kOwn
                                                                   : Raised::kNothing;
  }
  if (AnyIn(process.exception_type, kCancelledTypes)) return Raised::kCancelled;
  if (AnyIn(process.exception_type, kPeerLostTypes) ||
      AnyIn(process.exception_text, kPeerLostTexts)) {
    return Raised::kPeerLost;
  }
  return Raised::kOwn;
}

}  // namespace flare::diag
