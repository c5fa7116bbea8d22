// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "flare/v1/query.pb.h"
#include "libflare/core/status.h"

// The file of --report-json: always a whole, valid report.
//
// A change of a finding or of the job's state is written at once; anything else (steps, times) at
// most every two seconds, as each write waits for the disk. One thread.
namespace flare::cli {

class ReportFile {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ReportFile(std::string path) : path_(std::move(path)) {}  // empty: writes nothing
  Status Update(const v1::Report& report, Clock::time_point now);
  Status Write(const v1::Report& report);

 private:
  std::string path_;
  std::string written_;       // the document as it is on disk
  std::string urgent_parts_;  // what of it is written at once when it changes
  Clock::time_point written_at_{};
};

}  // namespace flare::cli
