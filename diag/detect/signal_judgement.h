// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "diag/model/job.h"
#include "diag/model/signal.h"

// What one statement of a host or device is worth, taken alone.
namespace flare::diag {

struct Judgement {
  const char* finding_class = "error";
  const char* cause = "";
  const char* team = nullptr;  // null: that of the cause
  bool conclusive = false;     // the statement itself is proof
  // The program's own fault as the device saw it: of no weight where the device was faulty itself.
  bool programs_fault = false;
  std::string what;  // "a memory error that could not be corrected (Xid 48)"
  const char* action = "";
};

// Nothing for statements that blame nobody (a power cap, a port without cable, a counter without a
// time), and for those that other detectors know better (NCCL, CUDA, exceptions).
std::optional<Judgement> Judge(const HostSignal& signal, const Job& job);

// The rank whose process the signal names ("python[4242]"), if the job has it.
std::optional<Rank> RankOfProcess(const HostSignal& signal, const Job& job);

}  // namespace flare::diag
