// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "libflare/core/status.h"

// A file that is written piece by piece and appears only when it is complete. One thread.
namespace flare::cli {

class OutputFile {
 public:
  // "-" is standard output, which appears as it is written.
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  // removes what was not completed

  Status Open();
  bool Write(std::string_view bytes);
  // Makes the file appear. The error is that of the first write that failed.
  Status Complete();

 private:
  const std::string path_;
  std::string temporary_;
  int fd_ = -1;
  Status status_;
};

}  // namespace flare::cli
