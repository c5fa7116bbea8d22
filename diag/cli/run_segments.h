// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "libflare/core/status.h"

// The folder in memory where the ranks of one `flare run` leave their segments.
//
// Its own folder, so that no other daemon reads them and all of them go when the run ends. A lock
// tells folders of runs that were killed; the next run removes those.
namespace flare::cli {

class RunSegments {
 public:
  // In /dev/shm, else in $XDG_RUNTIME_DIR; an error when neither is memory that we may write.
  static Result<RunSegments> Create(const std::string& name);
  RunSegments(RunSegments&& other) noexcept;
  RunSegments& operator=(RunSegments&&) = delete;
  ~RunSegments();  // removes the folder
  const std::string& path() const { return path_; }

 private:
  RunSegments(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}
  std::string path_;
  int lock_fd_ = -1;
};

}  // namespace flare::cli
