// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/endpoint.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "diag/cli/atomic_file.h"
#include "diag/cli/private_dir.h"
#include "nlohmann/json.hpp"

namespace flare::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kRecordName = "/endpoint.json";

struct Record {
  Endpoint endpoint;
  bool stale = false;  // of this boot, and its owner is gone
};

std::optional<Record> ReadRecord(const std::string& path) {
  const Result<std::string> text = ReadSmallFile(path, 64 << 10);
  if (!text.ok()) return std::nullopt;
  const Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto word = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
  };
  const auto number = [&](const char* key) -> uint64_t {
    return json.contains(key) && json[key].is_number_unsigned() ? json[key].get<uint64_t>() : 0;
  };
  Record record;
  record.endpoint = {word("job"),
                     word("name"),
                     word("engine"),
                     {static_cast<pid_t>(number("pid")), number("start_clock_ticks")}};
  if (word("boot") != BootId() || record.endpoint.job.empty()) return std::nullopt;
  record.stale = !StillRuns(record.endpoint.owner);
  return record;
}

bool Connects(int family, const sockaddr* address, socklen_t length, int timeout_ms) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  bool connected = connect(fd, address, length) == 0;
  if (!connected && errno == EINPROGRESS) {
    pollfd wait{fd, POLLOUT, 0};
    int error = 1;
    socklen_t size = sizeof(error);
    connected = poll(&wait, 1, timeout_ms) == 1 &&
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }
  close(fd);
  return connected;
}

bool AcceptsUnix(const std::string& path, int timeout_ms) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  return Connects(AF_UNIX, reinterpret_cast<sockaddr*>(&address), sizeof(address), timeout_ms);
}

bool AcceptsTcp(const std::string& host_port, int timeout_ms) {
  const size_t colon = host_port.rfind(':');
  if (colon == std::string::npos) return false;
  std::string host = host_port.substr(0, colon);
  if (host.starts_with("[") && host.ends_with("]")) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), host_port.c_str() + colon + 1, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    if (Connects(a->ai_family, a->ai_addr, a->ai_addrlen, timeout_ms)) return true;
  }
  return false;
}

}  // namespace

Result<PublishedEndpoint> PublishedEndpoint::Publish(const std::string& run_dir,
                                                     const Endpoint& endpoint) {
  Json json;
  json["job"] = endpoint.job;
  json["name"] = endpoint.name;
  json["engine"] = endpoint.engine;
  json["pid"] = static_cast<uint64_t>(endpoint.owner.pid);
  json["start_clock_ticks"] = endpoint.owner.start_clock_ticks;
  json["boot"] = BootId();
  const std::string path = run_dir + kRecordName;
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (Status status = WriteFileAtomically(path, text, 0600); !status.ok()) return status;
  return PublishedEndpoint(path);
}

PublishedEndpoint::~PublishedEndpoint() {
  if (!path_.empty()) unlink(path_.c_str());
}

std::vector<Endpoint> RunningEndpoints(const std::string& state_dir) {
  std::vector<Endpoint> running;
  std::error_code error;
  for (const std::string& run_dir : RunDirs(state_dir)) {
    const std::string path = run_dir + kRecordName;
    const std::optional<Record> record = ReadRecord(path);
    if (!record) continue;
    if (record->stale) {
      RemoveSocket(record->endpoint.engine);
      RemoveTree(run_dir);
    } else {
      running.push_back(record->endpoint);
    }
  }
  std::sort(running.begin(), running.end(), [](const Endpoint& a, const Endpoint& b) {
    return a.owner.start_clock_ticks > b.owner.start_clock_ticks;
  });
  return running;
}

std::optional<std::string> AdvertisedEngine(const std::string& state_dir) {
  const Result<std::string> text = ReadSmallFile(state_dir + "/engine.addr", 4096);
  if (!text.ok()) return std::nullopt;
  const std::string address = text->substr(0, text->find_first_of("\r\n"));
  return address.empty() ? std::nullopt : std::optional(address);
}

bool Accepts(const std::string& address, int timeout_ms) {
  if (address.starts_with("unix:")) return AcceptsUnix(address.substr(5), timeout_ms);
  return AcceptsTcp(address, timeout_ms);
}

}  // namespace flare::cli
