// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <thread>

#include "diag/import/input.h"

// While files are read: a line on stderr that tells how far, when that is a terminal, and an end to
// the reading when the user interrupts. One at a time.
namespace flare::cli {

class ReadProgress {
 public:
  // `watch` must outlive the object.
  ReadProgress(import::ReadWatch* watch, uint64_t files, uint64_t bytes);
  // Takes the line away and gives the signals back.
  ~ReadProgress();
  ReadProgress(const ReadProgress&) = delete;
  ReadProgress& operator=(const ReadProgress&) = delete;

 private:
  std::jthread painter_;
};

}  // namespace flare::cli
