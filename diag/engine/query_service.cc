// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/query_service.h"

#include <grpcpp/grpcpp.h>

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "diag/engine/engine_log.h"
#include "diag/engine/engine_loop.h"
#include "flare/v1/query.grpc.pb.h"

namespace flare::diag {
namespace {

using Context = EngineLoop::Context;

grpc::Status Internal(const Status& status) {
  return grpc::Status(grpc::StatusCode::INTERNAL, status.message());
}

Result<v1::ListJobsResponse> AllJobs(Context& engine) {
  v1::ListJobsResponse out;
  std::set<JobKey> in_memory;
  for (const LiveJob* job : engine.jobs.Jobs()) {
    in_memory.insert(job->key());
    *out.add_jobs() = job->Summary(engine.now_unix_ns);
  }
  const Result<v1::ListJobsResponse> stored = engine.reader.ListJobs(in_memory);
  if (!stored.ok()) return stored.status();
  out.MergeFrom(*stored);
  return out;
}

grpc::Status NotFound(Context& engine, const std::string& job) {
  const Result<v1::ListJobsResponse> known = AllJobs(engine);
  if (!known.ok()) return Internal(known.status());
  return grpc::Status(grpc::StatusCode::NOT_FOUND, UnknownJob(job, *known));
}

// The job and its report, from memory or else from the store.
struct FoundReport {
  JobKey key;
  std::shared_ptr<const v1::Report> report;
};

grpc::Status FindReport(Context& engine, const std::string& job, FoundReport* found) {
  if (const LiveJob* live = engine.jobs.Find(job)) {
    *found = {live->key(), std::make_shared<v1::Report>(live->Report(engine.now_unix_ns))};
    return grpc::Status::OK;
  }
  const Result<std::optional<JobKey>> key = engine.reader.FindJob(job);
  if (!key.ok()) return Internal(key.status());
  if (!*key) return NotFound(engine, job);
  Result<v1::Report> stored = engine.reader.LoadReport(**key);
  if (!stored.ok()) return Internal(stored.status());
  *found = {**key, std::make_shared<v1::Report>(std::move(*stored))};
  return grpc::Status::OK;
}

grpc::Status EndJob(Context& engine, const v1::EndJobRequest& request, v1::Report* report) {
  LiveJob* job = engine.jobs.Find(request.job());
  if (!job) {
    const Result<std::optional<JobKey>> key = engine.reader.FindJob(request.job());
    if (!key.ok()) return Internal(key.status());
    if (!*key) return NotFound(engine, request.job());
    Result<JobMemory> memory = engine.reader.LoadJob(**key, kKeptSteps);
    if (!memory.ok()) return Internal(memory.status());
    job = engine.jobs.Adopt(std::move(*memory));
  }
  job->End(request.exit_status(), engine.now_unix_ns);
  StoreWrites writes;
  job->CollectWrites(engine.now_unix_ns, &writes);
  engine.commit.Add(std::move(writes));
  *report = job->Report(engine.now_unix_ns);
  return grpc::Status::OK;
}

grpc::Status SwitchJob(Context& engine, const v1::SwitchJobRequest& request, uint32_t* told) {
  LiveJob* job = engine.jobs.Find(request.job());
  if (!job) return NotFound(engine, request.job());
  StoreWrites writes;
  *told = engine.jobs.SwitchJob(job, request.enabled(), &writes, engine.now_unix_ns);
  engine.commit.Add(std::move(writes));
  EngineLog().info("job {}: hooks switched {}; {} daemons told", job->job().id,
                   request.enabled() ? "on" : "off", *told);
  return grpc::Status::OK;
}

// One open WatchReport. The reactor lives until gRPC is done with the call, the watcher as long as
// the loop holds it; `mutex` guards both ways between them.
class Watcher : public ReportWatcher {
 public:
  explicit Watcher(grpc::ServerWriteReactor<v1::Report>* reactor) : reactor_(reactor) {}

  bool Take(std::shared_ptr<const v1::Report> report) override {
    const std::lock_guard lock(mutex_);
    if (finish_) return false;
    next_ = std::move(report);  // a slow client gets the newest, not all
    WriteIfIdle();
    return true;
  }

  void WriteDone(bool ok) {
    const std::lock_guard lock(mutex_);
    writing_.reset();
    if (!ok && !finish_) finish_ = grpc::Status::OK;
    FinishIfIdle();
    WriteIfIdle();
  }

  void Close(grpc::Status status) {
    const std::lock_guard lock(mutex_);
    if (finish_) return;
    finish_ = std::move(status);
    FinishIfIdle();
  }

 private:
  void WriteIfIdle() {
    if (writing_ || finish_ || !next_) return;
    writing_ = std::exchange(next_, nullptr);
    reactor_->StartWrite(writing_.get());
  }

  void FinishIfIdle() {
    if (!finish_ || writing_ || finished_) return;
    finished_ = true;
    reactor_->Finish(*finish_);
  }

  std::mutex mutex_;
  grpc::ServerWriteReactor<v1::Report>* const reactor_;  // used only before Finish
  std::shared_ptr<const v1::Report> writing_;
  std::shared_ptr<const v1::Report> next_;
  std::optional<grpc::Status> finish_;
  bool finished_ = false;
};

class WatchReactor : public grpc::ServerWriteReactor<v1::Report> {
 public:
  WatchReactor(EngineLoop* loop, const v1::WatchReportRequest& request)
      : watcher_(std::make_shared<Watcher>(this)) {
    loop->Post([loop, watcher = watcher_, request](Context& engine) {
      FoundReport found;
      const grpc::Status status = FindReport(engine, request.job(), &found);
      if (!status.ok()) return watcher->Close(status);
      loop->Watch(found.key, request.heartbeat_ms(), watcher, std::move(found.report));
    });
  }

  void OnWriteDone(bool ok) override { watcher_->WriteDone(ok); }
  void OnCancel() override { watcher_->Close(grpc::Status::OK); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<Watcher> watcher_;
};

class QueryService : public v1::Query::CallbackService {
 public:
  explicit QueryService(EngineLoop* loop) : loop_(loop) {}

  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobsRequest*,
                                     v1::ListJobsResponse* response) override {
    return Answer(context, [response](Context& engine) {
      Result<v1::ListJobsResponse> jobs = AllJobs(engine);
      if (!jobs.ok()) return Internal(jobs.status());
      *response = std::move(*jobs);
      return grpc::Status::OK;
    });
  }

  grpc::ServerUnaryReactor* GetReport(grpc::CallbackServerContext* context,
                                      const v1::GetReportRequest* request,
                                      v1::Report* response) override {
    return Answer(context, [request, response](Context& engine) {
      FoundReport found;
      const grpc::Status status = FindReport(engine, request->job(), &found);
      if (status.ok()) *response = *found.report;
      return status;
    });
  }

  grpc::ServerWriteReactor<v1::Report>* WatchReport(
      grpc::CallbackServerContext*, const v1::WatchReportRequest* request) override {
    return new WatchReactor(loop_, *request);
  }

  grpc::ServerUnaryReactor* EndJob(grpc::CallbackServerContext* context,
                                   const v1::EndJobRequest* request,
                                   v1::EndJobResponse* response) override {
    return Answer(context, [request, response](Context& engine) {
      return diag::EndJob(engine, *request, response->mutable_report());
    });
  }

  grpc::ServerUnaryReactor* SwitchJob(grpc::CallbackServerContext* context,
                                      const v1::SwitchJobRequest* request,
                                      v1::SwitchJobResponse* response) override {
    return Answer(context, [request, response](Context& engine) {
      uint32_t told = 0;
      const grpc::Status status = diag::SwitchJob(engine, *request, &told);
      response->set_daemons(told);
      return status;
    });
  }

  grpc::ServerUnaryReactor* ListVersions(grpc::CallbackServerContext* context,
                                         const v1::ListVersionsRequest*,
                                         v1::ListVersionsResponse* response) override {
    return Answer(context, [response](Context& engine) {
      response->set_engine_version(FLARE_VERSION);
      for (const std::shared_ptr<const Daemon>& daemon : engine.jobs.ConnectedDaemons()) {
        v1::DaemonVersion* version = response->add_daemons();
        version->set_node(daemon->node);
        version->set_version(daemon->version);
      }
      return grpc::Status::OK;
    });
  }

 private:
  // Request and response stay valid until Finish.
  template <typename Work>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, Work work) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    loop_->Post(
        [reactor, work = std::move(work)](Context& engine) { reactor->Finish(work(engine)); });
    return reactor;
  }

  EngineLoop* const loop_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeQueryService(EngineLoop* loop) {
  return std::make_unique<QueryService>(loop);
}

}  // namespace flare::diag
