// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/engine.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "diag/engine/engine_log.h"
#include "diag/engine/engine_loop.h"
#include "diag/engine/group_commit.h"
#include "diag/engine/ingest_service.h"
#include "diag/engine/listen_address.h"
#include "diag/engine/message_check.h"
#include "diag/engine/query_service.h"
#include "diag/engine/state_dir.h"
#include "diag/store/store.h"

namespace flare::diag {
namespace {

constexpr int kKeepaliveMs = 20'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
constexpr int kMinPingIntervalMs = 5'000;

// gRPC removes a socket file before it binds, also that of an engine that lives.
bool SomebodyListens(const std::string& socket_path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof(address.sun_path) - 1);
  const bool answered =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return answered;
}

}  // namespace

class Engine::Parts {
 public:
  // Destroyed from the last to the first: nothing outlives what it uses.
  std::unique_ptr<StateDir> state_dir;
  StreamCounters streams;
  std::unique_ptr<EngineLoop> loop;
  std::unique_ptr<grpc::Service> ingest;
  std::unique_ptr<grpc::Service> query;
  std::unique_ptr<grpc::Server> server;
  ListenAddress listen;
  std::string address;

  Status OpenStore(const EngineOptions& options);
  Status Listen();
};

Status Engine::Parts::OpenStore(const EngineOptions& options) {
  Result<std::unique_ptr<Store>> writer = Store::Open(state_dir->database(), OpenMode::kReadWrite);
  if (!writer.ok()) return writer.status();
  Result<std::unique_ptr<Store>> reader = Store::Open(state_dir->database(), OpenMode::kReadOnly);
  if (!reader.ok()) return reader.status();
  Retention retention;
  retention.steps_per_rank = std::max<uint64_t>(1, options.kept_steps_per_rank);
  auto commit =
      std::make_unique<GroupCommit>(std::move(*writer), options.commit_interval_ms, retention);
  loop = std::make_unique<EngineLoop>(
      state_dir->owner(), std::move(*reader), std::move(commit), options.tick_ms,
      [dir = state_dir.get()](const std::string& owner) { return dir->OwnerIsGone(owner); });
  return options.advertise ? loop->AdoptUnfinishedJobs() : Status::Ok();
}

Status Engine::Parts::Listen() {
  if (!listen.socket_path.empty() && SomebodyListens(listen.socket_path)) {
    return Status::Error("cannot listen on " + listen.grpc + ": another program does already");
  }
  ingest = MakeIngestService(loop.get(), &streams);
  query = MakeQueryService(loop.get());
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(listen.grpc, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
  builder.RegisterService(ingest.get());
  builder.RegisterService(query.get());
  server = builder.BuildAndStart();
  if (!server || port == 0) {
    return Status::Error("cannot listen on " + listen.grpc +
                         ": the address is in use or may not be used");
  }
  if (listen.socket_path.empty()) {
    address = listen.grpc.substr(0, listen.grpc.rfind(':') + 1) + std::to_string(port);
  } else {
    chmod(listen.socket_path.c_str(), 0600);
    address = listen.grpc;
  }
  return Status::Ok();
}

Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Result<std::unique_ptr<Engine>> Engine::Start(EngineOptions options) {
  auto parts = std::make_unique<Parts>();
  Result<ListenAddress> listen = ParseListenAddress(options.listen, options.insecure);
  if (!listen.ok()) return listen.status();
  parts->listen = *listen;
  Result<std::unique_ptr<StateDir>> dir = StateDir::Open(options.state_dir, options.advertise);
  if (!dir.ok()) return dir.status();
  parts->state_dir = std::move(*dir);
  if (Status s = parts->OpenStore(options); !s.ok()) return s;
  parts->loop->Start();
  std::unique_ptr<Engine> engine(new Engine(std::move(parts)));
  if (Status s = engine->parts_->Listen(); !s.ok()) return s;
  if (Status s = engine->parts_->state_dir->Advertise(engine->address()); !s.ok()) return s;
  EngineLog().info("listening on {}, state in {}", engine->address(), options.state_dir);
  return engine;
}

Engine::~Engine() { Stop(); }

std::string Engine::address() const { return parts_->address; }

void Engine::Stop() {
  if (parts_->server) {
    // Streams never end by themselves: cancel them now. Answers that the loop owes still come.
    parts_->server->Shutdown(std::chrono::system_clock::now());
    parts_->server->Wait();
    parts_->server.reset();
    if (!parts_->listen.socket_path.empty()) unlink(parts_->listen.socket_path.c_str());
  }
  parts_->loop->Stop();
  parts_->state_dir.reset();
}

EngineCounters Engine::counters() const {
  const TableCounters table = parts_->loop->table_counters();
  const CommitCounters commit = parts_->loop->commit_counters();
  EngineCounters out;
  out.streams = parts_->streams.open;
  out.streams_refused = parts_->streams.refused;
  out.batches = table.batches;
  out.batches_repeated = table.batches_repeated;
  out.steps = table.steps;
  out.steps_stored = commit.steps_stored;
  out.steps_repeated = commit.steps_repeated;
  out.steps_trimmed = commit.steps_trimmed;
  out.states = table.states;
  out.rejected = table.rejected;
  out.unknown_sources = table.unknown_sources;
  out.commits = commit.commits;
  out.failed_commits = commit.failed_commits;
  out.commit_ns_total = commit.commit_ns_total;
  out.commit_ns_longest = commit.commit_ns_longest;
  return out;
}

}  // namespace flare::diag
