// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/query_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "diag/report/plain_text.h"

namespace flare::cli {
namespace {

constexpr int kCallTimeoutMs = 5000;
constexpr int kLargestReportBytes = 256 << 20;  // 100,000 ranks with a line each

void SetDeadline(grpc::ClientContext* context, int timeout_ms) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLargestReportBytes);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  // An engine on this machine or network is not behind the proxy of the web.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

QueryClient::QueryClient(const std::string& address)
    : address_(address), stub_(v1::Query::NewStub(Connect(address))) {}

Status QueryClient::Explain(const grpc::Status& status) {
  const grpc::StatusCode code = status.error_code();
  refused_ =
      code == grpc::StatusCode::UNAUTHENTICATED || code == grpc::StatusCode::PERMISSION_DENIED;
  unknown_job_ = code == grpc::StatusCode::NOT_FOUND;
  if (status.ok()) return Status::Ok();
  const std::string said = diag::Printable(status.error_message(), 1000);
  switch (code) {
    case grpc::StatusCode::UNAVAILABLE:
      return Status::Error("no engine answers at " + address_ + " (" + said + ")");
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Status::Error("the engine at " + address_ + " did not answer in time");
    case grpc::StatusCode::NOT_FOUND:
      return Status::Error(said);
    default:
      return Status::Error("engine at " + address_ + ": " + said);
  }
}

Result<v1::ListJobsResponse> QueryClient::ListJobs() {
  grpc::ClientContext context;
  SetDeadline(&context, kCallTimeoutMs);
  v1::ListJobsResponse response;
  const Status status = Explain(stub_->ListJobs(&context, {}, &response));
  if (!status.ok()) return status;
  return response;
}

Result<v1::Report> QueryClient::GetReport(const std::string& job) {
  grpc::ClientContext context;
  SetDeadline(&context, kCallTimeoutMs);
  v1::GetReportRequest request;
  request.set_job(job);
  v1::Report report;
  const Status status = Explain(stub_->GetReport(&context, request, &report));
  if (!status.ok()) return status;
  return report;
}

Result<v1::Report> QueryClient::EndJob(const std::string& job, int exit_status, int timeout_ms) {
  grpc::ClientContext context;
  SetDeadline(&context, timeout_ms);
  v1::EndJobRequest request;
  request.set_job(job);
  request.set_exit_status(exit_status);
  v1::EndJobResponse response;
  const Status status = Explain(stub_->EndJob(&context, request, &response));
  if (!status.ok()) return status;
  return response.report();
}

Result<v1::SwitchJobResponse> QueryClient::SwitchJob(const std::string& job, bool enabled) {
  grpc::ClientContext context;
  SetDeadline(&context, kCallTimeoutMs);
  v1::SwitchJobRequest request;
  request.set_job(job);
  request.set_enabled(enabled);
  v1::SwitchJobResponse response;
  const Status status = Explain(stub_->SwitchJob(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

Result<v1::ListVersionsResponse> QueryClient::ListVersions(int timeout_ms) {
  grpc::ClientContext context;
  SetDeadline(&context, timeout_ms);
  v1::ListVersionsResponse response;
  const grpc::Status answer = stub_->ListVersions(&context, {}, &response);
  if (answer.error_code() == grpc::StatusCode::UNIMPLEMENTED) return v1::ListVersionsResponse();
  if (Status status = Explain(answer); !status.ok()) return status;
  return response;
}

Status QueryClient::Watch(const std::string& job,
                          const std::function<bool(const v1::Report&)>& on_report,
                          std::stop_token stop) {
  grpc::ClientContext context;
  const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  v1::WatchReportRequest request;
  request.set_job(job);
  const auto reader = stub_->WatchReport(&context, request);
  v1::Report report;
  bool wanted = true;
  while (wanted && reader->Read(&report)) wanted = on_report(report);
  if (!wanted) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (!wanted || stop.stop_requested()) return Status::Ok();
  if (status.ok()) return Status::Error("the engine at " + address_ + " ended the connection");
  return Explain(status);
}

}  // namespace flare::cli
