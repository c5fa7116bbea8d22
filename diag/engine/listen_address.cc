// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/listen_address.h"

#include <sys/un.h>

#include <charconv>

namespace flare::diag {
namespace {

bool IsLoopback(const std::string& host) {
  if (host == "localhost" || host == "::1") return true;
  // 127.0.0.0/8 in numbers only: "127.evil.example" is a name.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos;
}

}  // namespace

Result<ListenAddress> ParseListenAddress(const std::string& text, bool insecure) {
  const std::string form = "listen address '" + text + "': ";
  if (text.starts_with("unix:")) {
    const std::string path = text.substr(5);
    if (!path.starts_with("/")) return Status::Error(form + "a Unix socket needs a full path");
    if (path.size() >= sizeof(sockaddr_un::sun_path)) {
      return Status::Error(form + "the path is too long for a Unix socket (" +
                           std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " bytes at most)");
    }
    return ListenAddress{text, "", path};
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return Status::Error(form + "want HOST:PORT or unix:/PATH");
  }
  std::string host = text.substr(0, colon);
  if (host.starts_with("[") && host.ends_with("]")) host = host.substr(1, host.size() - 2);
  const std::string port = text.substr(colon + 1);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number > 65535) {
    return Status::Error(form + "'" + port + "' is not a port");
  }
  if (!insecure && !IsLoopback(host)) {
    return Status::Error(form +
                         "other machines could reach it, and connections are neither encrypted nor "
                         "authenticated yet; use 127.0.0.1, unix:/PATH, or --insecure on a network "
                         "you trust");
  }
  return ListenAddress{text, host, ""};
}

}  // namespace flare::diag
