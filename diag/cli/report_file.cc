// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/report_file.h"

#include "diag/cli/atomic_file.h"
#include "diag/report/report_json.h"

namespace flare::cli {
namespace {

constexpr std::chrono::seconds kBetweenWrites(2);

// A finding without what grows by itself while it lasts.
std::string UrgentParts(const v1::Report& report) {
  std::string parts = report.job().state();
  for (v1::Finding finding : report.findings()) {
    finding.clear_last_seen_unix_ns();
    finding.clear_gpu_hours_lost();
    finding.clear_evidence();
    parts += finding.SerializeAsString() + "\n";
  }
  return parts;
}

}  // namespace

Status ReportFile::Update(const v1::Report& report, Clock::time_point now) {
  if (path_.empty()) return Status::Ok();
  if (UrgentParts(report) == urgent_parts_ && now - written_at_ < kBetweenWrites) {
    return Status::Ok();
  }
  written_at_ = now;
  return Write(report);
}

Status ReportFile::Write(const v1::Report& report) {
  if (path_.empty()) return Status::Ok();
  const std::string text = diag::JsonText(diag::ReportJson(report), 2) + "\n";
  if (text == written_) return Status::Ok();
  const Status status = WriteFileAtomically(path_, text, 0666);
  if (status.ok()) {
    written_ = text;
    urgent_parts_ = UrgentParts(report);
  }
  return status;
}

}  // namespace flare::cli
