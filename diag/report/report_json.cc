// SPDX-License-Identifier: Apache-2.0
#include "diag/report/report_json.h"

#include <algorithm>
#include <optional>

#include "diag/report/device_view.h"
#include "diag/report/plain_text.h"
#include "libflare/core/kernel_class.h"

namespace flare::diag {
namespace {

using Json = nlohmann::ordered_json;

Json TimeOrNull(uint64_t unix_ns) {
  return unix_ns == 0 ? Json(nullptr) : Json(UtcMillis(unix_ns));
}

Json PositiveOrNull(double value) { return value > 0 ? Json(value) : Json(nullptr); }

template <typename Repeated>
Json List(const Repeated& values) {
  Json list = Json::array();
  for (const auto& value : values) list.push_back(value);
  return list;
}

Json EvidenceJson(const v1::Evidence& evidence) {
  Json json;
  json["text"] = evidence.text();
  json["metric"] = evidence.metric();
  json["value"] = evidence.has_value() ? Json(evidence.value()) : Json(nullptr);
  json["unit"] = evidence.unit();
  json["expected"] = evidence.has_expected() ? Json(evidence.expected()) : Json(nullptr);
  return json;
}

Json RankJson(const v1::RankSummary& rank) {
  Json json;
  json["rank"] = rank.rank();
  json["node"] = rank.node();
  json["pid"] = rank.pid();
  json["state"] = rank.state();
  json["steps"] = rank.steps();
  json["step_seconds_median"] = PositiveOrNull(rank.step_seconds_median());
  json["doing"] = rank.doing();
  json["exit_code"] = rank.state() == "exited" ? Json(rank.exit_code()) : Json(nullptr);
  json["exception"] = rank.exception();
  json["parts"] = Json::array();
  for (const v1::PartStatus& part : rank.parts()) {
    Json entry;
    entry["part"] = part.part();
    entry["state"] = part.state();
    json["parts"].push_back(std::move(entry));
  }
  return json;
}

Json ValueOrNull(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json IssueLatencyJson(const v1::QuantileSketch& sketch) {
  Json json;
  uint64_t count = 0;
  for (const uint64_t bucket : sketch.count()) count += bucket;
  json["count"] = count;
  json["median_seconds"] = ValueOrNull(QuantileSeconds(sketch, 0.5));
  json["p99_seconds"] = ValueOrNull(QuantileSeconds(sketch, 0.99));
  return json;
}

Json ProfileJson(const v1::RankProfile& profile) {
  const v1::DeviceStep& device = profile.device();
  const std::optional<DeviceShares> shares = SharesOf(device);
  const auto share = [&](double DeviceShares::*member) {
    return shares ? Json((*shares).*member) : Json(nullptr);
  };
  Json json;
  json["rank"] = profile.rank();
  json["steps"] = profile.steps();
  json["step_seconds_mean"] = PositiveOrNull(static_cast<double>(profile.steps_ns()) * 1e-9 /
                                             std::max(1u, profile.steps()));
  json["devices"] = List(device.devices());
  json["streams"] = device.streams();
  json["kernels"] = device.kernels();
  json["communication_kernels"] = device.communication_kernels();
  json["memory_operations"] = device.memory_operations();
  json["observed_seconds"] = shares ? static_cast<double>(shares->observed_ns) * 1e-9 : 0.0;
  json["busy_share"] = share(&DeviceShares::busy);
  json["idle_share"] = share(&DeviceShares::idle);
  json["compute_share"] = share(&DeviceShares::compute);
  json["communication_share"] = share(&DeviceShares::communication);
  json["memory_share"] = share(&DeviceShares::memory);
  json["exposed_communication_share"] = share(&DeviceShares::exposed);
  json["between_steps_share"] = share(&DeviceShares::between_steps);
  json["overlap_share"] = shares ? ValueOrNull(shares->overlap) : Json(nullptr);
  json["issue_latency"]["compute"] = IssueLatencyJson(device.compute_issue_latency());
  json["issue_latency"]["communication"] = IssueLatencyJson(device.communication_issue_latency());
  json["classes"] = Json::array();
  for (const v1::KernelTotals& kernels : device.classes()) {
    Json entry;
    const int number = kernels.kernel_class();
    entry["class"] =
        KernelClassName(number >= 0 && number < kKernelClassCount ? static_cast<KernelClass>(number)
                                                                  : KernelClass::kOther);
    entry["count"] = kernels.count();
    entry["total_seconds"] = static_cast<double>(kernels.total_ns()) * 1e-9;
    entry["median_seconds"] = ValueOrNull(QuantileSeconds(kernels.duration(), 0.5));
    entry["p99_seconds"] = ValueOrNull(QuantileSeconds(kernels.duration(), 0.99));
    json["classes"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace

Json FindingJson(const v1::Finding& finding) {
  Json json;
  json["id"] = finding.id();
  json["class"] = finding.class_();
  json["cause"] = finding.cause();
  json["team"] = finding.team();
  json["ranks"] = List(finding.ranks());
  json["nodes"] = List(finding.nodes());
  json["links"] = List(finding.links());
  json["confidence"] = finding.confidence();
  json["severity"] = finding.severity();
  json["state"] = finding.state();
  json["first_seen"] = TimeOrNull(finding.first_seen_unix_ns());
  json["last_seen"] = TimeOrNull(finding.last_seen_unix_ns());
  json["gpu_hours_lost"] = finding.gpu_hours_lost();
  json["summary"] = finding.summary();
  json["action"] = finding.action();
  json["evidence"] = Json::array();
  for (const v1::Evidence& evidence : finding.evidence()) {
    json["evidence"].push_back(EvidenceJson(evidence));
  }
  json["victims"] = List(finding.victims());
  return json;
}

Json JobJson(const v1::JobSummary& job) {
  Json json;
  json["id"] = job.job();
  json["name"] = job.name();
  json["attempt"] = job.attempt();
  json["world_size"] = job.world_size();
  json["ranks_seen"] = job.ranks_seen();
  json["ranks_alive"] = job.ranks_alive();
  json["state"] = job.state();
  json["first_seen"] = TimeOrNull(job.first_seen_unix_ns());
  json["last_seen"] = TimeOrNull(job.last_seen_unix_ns());
  json["steps"] = job.steps();
  json["step_seconds_median"] = PositiveOrNull(job.step_seconds_median());
  json["open_findings"] = job.open_findings();
  json["nodes"] = List(job.nodes());
  json["framework"] = job.framework();
  json["exit_status"] = job.exit_status() < 0 ? Json(nullptr) : Json(job.exit_status());
  json["imported"] = TimeOrNull(job.imported_unix_ns());
  return json;
}

Json ReportJson(const v1::Report& report) {
  Json json;
  json["schema"] = "flare.report.v1";
  json["job"] = JobJson(report.job());
  json["findings"] = Json::array();
  for (const v1::Finding& finding : report.findings()) {
    json["findings"].push_back(FindingJson(finding));
  }
  json["ranks"] = Json::array();
  for (const v1::RankSummary& rank : report.ranks()) json["ranks"].push_back(RankJson(rank));
  json["profiles"] = Json::array();
  for (const v1::RankProfile& profile : report.profiles()) {
    json["profiles"].push_back(ProfileJson(profile));
  }
  json["notes"] = List(report.notes());
  return json;
}

Json JobsJson(const std::vector<v1::JobSummary>& jobs) {
  Json json;
  json["schema"] = "flare.jobs.v1";
  json["jobs"] = Json::array();
  for (const v1::JobSummary& job : jobs) json["jobs"].push_back(JobJson(job));
  return json;
}

std::string JsonText(const Json& document, int indent) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace flare::diag
