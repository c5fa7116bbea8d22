// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "diag/import/fragment.h"
#include "diag/import/value.h"
#include "libflare/core/status.h"

// Answers of NCCL's RAS subsystem (ncclras, or a query to its port): which processes do not answer,
// and whose counts of collectives differ.
//
// One look proves little: counts of a job that moves differ between any two ranks asked one after
// the other, and a process may be silent for a moment. Two answers in one file that say the same of
// a communicator show that it stands still.
namespace flare::import {

inline constexpr size_t kMostRasRanks = 1 << 20;

// The text form, line by line. A file may hold several answers, one after the other.
class RasTextReader {
 public:
  virtual ~RasTextReader() = default;
  virtual void Take(std::string_view line, const std::string& source) = 0;
  // An error when there was no answer in it.
  virtual Status End() = 0;
};

std::unique_ptr<RasTextReader> MakeRasTextReader(Fragment* fragment);

// The JSON form: one answer, or one event of the monitor.
Status ReadRasJson(const Value& root, const std::string& source, Fragment* fragment);

}  // namespace flare::import
