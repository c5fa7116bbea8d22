// SPDX-License-Identifier: Apache-2.0
#include "tests/diag/engine/test_client.h"

#include <chrono>
#include <utility>

#include "libflare/core/clock.h"

namespace flare::diag {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  // A connection of its own for each client, as from another process.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 50);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

TestDaemon::TestDaemon(const std::string& address) : stub_(v1::Ingest::NewStub(Connect(address))) {
  context_.set_wait_for_ready(true);
  context_.set_deadline(std::chrono::system_clock::now() + 4 * kPatience);
  stream_ = stub_->Stream(&context_);
  reader_ = std::thread([this] { Read(); });
}

TestDaemon::TestDaemon(const std::string& address, const std::string& id, uint32_t protocol)
    : TestDaemon(address) {
  v1::DaemonMessage message;
  message.mutable_hello()->set_daemon_id(id);
  message.mutable_hello()->set_node("node-" + id);
  message.mutable_hello()->set_version("version of " + id);
  message.mutable_hello()->set_protocol(protocol);
  Send(message);
}

TestDaemon::~TestDaemon() {
  context_.TryCancel();
  (void)Finish();
}

// gRPC takes one Finish() per stream.
grpc::Status TestDaemon::Finish() {
  if (reader_.joinable()) {
    reader_.join();
    final_status_ = stream_->Finish();
  }
  return final_status_;
}

void TestDaemon::Read() {
  v1::EngineMessage message;
  while (stream_->Read(&message)) {
    const std::lock_guard lock(mutex_);
    if (message.has_ack()) acknowledged_ = message.ack().sequence();
    if (message.has_control()) job_switch_ = message.control().job_switch();
    news_.notify_all();
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  news_.notify_all();
}

template <typename Ready>
bool TestDaemon::Wait(Ready ready) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, kPatience, [&] { return ready() || ended_; });
  return ready();
}

bool TestDaemon::Send(const v1::DaemonMessage& message) { return stream_->Write(message); }

bool TestDaemon::Send(const v1::Batch& batch) {
  v1::DaemonMessage message;
  *message.mutable_batch() = batch;
  return Send(message);
}

bool TestDaemon::Send(const v1::RankState& state) {
  v1::DaemonMessage message;
  *message.mutable_states()->add_states() = state;
  return Send(message);
}

bool TestDaemon::WaitForAck(uint64_t sequence) {
  return Wait([&] { return acknowledged_ >= sequence; });
}

std::optional<v1::JobSwitch> TestDaemon::WaitForSwitch() {
  Wait([&] { return job_switch_.has_value(); });
  const std::lock_guard lock(mutex_);
  return std::exchange(job_switch_, std::nullopt);
}

grpc::Status TestDaemon::WaitForEnd() {
  if (!Wait([&] { return ended_; })) return grpc::Status(grpc::StatusCode::UNKNOWN, "goes on");
  return Finish();
}

uint64_t TestDaemon::acknowledged() {
  const std::lock_guard lock(mutex_);
  return acknowledged_;
}

TestQuery::TestQuery(const std::string& address) : stub_(v1::Query::NewStub(Connect(address))) {}

void TestQuery::SetDeadline(grpc::ClientContext* context) {
  context->set_wait_for_ready(true);
  context->set_deadline(std::chrono::system_clock::now() + kPatience);
}

grpc::Status TestQuery::GetReport(const std::string& job, v1::Report* report) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::GetReportRequest request;
  request.set_job(job);
  return stub_->GetReport(&context, request, report);
}

v1::ListJobsResponse TestQuery::ListJobs() {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::ListJobsResponse response;
  (void)stub_->ListJobs(&context, {}, &response);
  return response;
}

v1::ListVersionsResponse TestQuery::ListVersions() {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::ListVersionsResponse response;
  (void)stub_->ListVersions(&context, {}, &response);
  return response;
}

grpc::Status TestQuery::EndJob(const std::string& job, int32_t exit_status, v1::Report* report) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::EndJobRequest request;
  request.set_job(job);
  request.set_exit_status(exit_status);
  v1::EndJobResponse response;
  const grpc::Status status = stub_->EndJob(&context, request, &response);
  *report = response.report();
  return status;
}

grpc::Status TestQuery::SwitchJob(const std::string& job, bool enabled, uint32_t* daemons) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::SwitchJobRequest request;
  request.set_job(job);
  request.set_enabled(enabled);
  v1::SwitchJobResponse response;
  const grpc::Status status = stub_->SwitchJob(&context, request, &response);
  *daemons = response.daemons();
  return status;
}

v1::RankHello Hello(uint64_t source, const std::string& job, uint32_t rank, uint32_t world_size,
                    uint32_t attempt) {
  v1::RankHello hello;
  hello.set_source(source);
  hello.set_job(job);
  hello.set_job_name("name of " + job);
  hello.set_rank(rank);
  hello.set_world_size(world_size);
  hello.set_attempt(attempt);
  hello.set_node("node-a");
  hello.set_pid(1000 + rank);
  hello.set_started_unix_ns(RealtimeNs());
  hello.set_framework("torch 2.13.0");
  return hello;
}

v1::RankStep Step(uint64_t source, uint64_t step) {
  v1::RankStep out;
  out.set_source(source);
  out.set_step(step);
  out.set_start_unix_ns(RealtimeNs());
  out.set_duration_ns(500'000'000);
  return out;
}

v1::RankState State(uint64_t source, const std::string& run_state, uint64_t age_ns) {
  v1::RankState out;
  out.set_source(source);
  out.set_at_unix_ns(RealtimeNs() - age_ns);
  out.set_steps(5);
  out.set_last_progress_unix_ns(out.at_unix_ns());
  out.mutable_process()->set_life(v1::ProcessState::LIFE_RUNNING);
  out.mutable_process()->set_run_state(run_state);
  return out;
}

}  // namespace flare::diag
