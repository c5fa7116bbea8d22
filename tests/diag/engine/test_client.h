// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "flare/v1/ingest.grpc.pb.h"
#include "flare/v1/query.grpc.pb.h"

// The other end of an engine's socket, for tests: a daemon that does what the test says, and a
// command line. Waits end when what they wait for comes, when the stream ends, or after 30 s.
namespace flare::diag {

class TestDaemon {
 public:
  // Connects and says hello.
  TestDaemon(const std::string& address, const std::string& id, uint32_t protocol = 1);
  // Connects and says nothing.
  explicit TestDaemon(const std::string& address);
  ~TestDaemon();

  bool Send(const v1::DaemonMessage& message);
  bool Send(const v1::Batch& batch);
  bool Send(const v1::RankState& state);
  // True once this number has been acknowledged.
  bool WaitForAck(uint64_t sequence);
  std::optional<v1::JobSwitch> WaitForSwitch();
  // Waits until the engine ends the stream; how it ended.
  grpc::Status WaitForEnd();
  uint64_t acknowledged();

 private:
  void Read();
  grpc::Status Finish();
  template <typename Ready>
  bool Wait(Ready ready);

  grpc::ClientContext context_;
  std::unique_ptr<v1::Ingest::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::DaemonMessage, v1::EngineMessage>> stream_;
  std::mutex mutex_;
  std::condition_variable news_;
  uint64_t acknowledged_ = 0;
  std::optional<v1::JobSwitch> job_switch_;
  bool ended_ = false;
  grpc::Status final_status_;
  std::thread reader_;
};

class TestQuery {
 public:
  explicit TestQuery(const std::string& address);
  grpc::Status GetReport(const std::string& job, v1::Report* report);
  v1::ListJobsResponse ListJobs();
  v1::ListVersionsResponse ListVersions();
  grpc::Status EndJob(const std::string& job, int32_t exit_status, v1::Report* report);
  grpc::Status SwitchJob(const std::string& job, bool enabled, uint32_t* daemons);
  // Follows the job until `done` says so; false when the stream ends before.
  template <typename Done>
  bool Watch(const std::string& job, uint32_t heartbeat_ms, Done done) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::WatchReportRequest request;
    request.set_job(job);
    request.set_heartbeat_ms(heartbeat_ms);
    const auto stream = stub_->WatchReport(&context, request);
    v1::Report report;
    while (stream->Read(&report)) {
      if (done(report)) return true;  // destroying the context ends the stream
    }
    watch_status_ = stream->Finish();
    return false;
  }
  const grpc::Status& watch_status() const { return watch_status_; }

 private:
  static void SetDeadline(grpc::ClientContext* context);
  std::unique_ptr<v1::Query::Stub> stub_;
  grpc::Status watch_status_;
};

// Messages with few words.
v1::RankHello Hello(uint64_t source, const std::string& job, uint32_t rank, uint32_t world_size,
                    uint32_t attempt = 0);
v1::RankStep Step(uint64_t source, uint64_t step);
v1::RankState State(uint64_t source, const std::string& run_state = "R", uint64_t age_ns = 0);

}  // namespace flare::diag
