// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "diag/import/fragment.h"
#include "diag/import/line_origin.h"

// The output of a training job: of one rank, or of all of them mixed, as launchers collect it. What
// each library writes into it has one reader; every reader sees every line.
namespace flare::import {

struct OutputLine {
  std::string_view whole;
  std::string_view text;  // without the prefix of a launcher, if it has one
  Origin origin;          // its rank, as the prefix tells it
  std::string_view file;
  uint64_t number = 0;
  std::string Source() const { return std::string(file) + ":" + std::to_string(number); }
};

class OutputReader {
 public:
  virtual ~OutputReader() = default;
  virtual void Take(const OutputLine& line) = 0;
  // Whether any line was one of its own.
  virtual bool found() const = 0;
  // Adds what was found. Called once, after the last line.
  virtual void End(Fragment* fragment) = 0;
};

// "host:pid:tid [0] NCCL INFO ...": communicators, transports, warnings. Also RCCL.
std::unique_ptr<OutputReader> MakeNcclReader();
// Time-outs and errors that PyTorch's watchdogs report: calls that never ended, by rank.
std::unique_ptr<OutputReader> MakeWatchdogReader();
// Python exceptions and C++ ones that end a process.
std::unique_ptr<OutputReader> MakeExceptionReader();
// What torchrun sums up when a worker has failed.
std::unique_ptr<OutputReader> MakeElasticReader();
// Training steps as frameworks print them: step_dialect.h.
std::unique_ptr<OutputReader> MakeStepReader();
// Tables of nccl-tests (all_reduce_perf and the like).
std::unique_ptr<OutputReader> MakeNcclTestsReader();

}  // namespace flare::import
