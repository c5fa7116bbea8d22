// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "diag/model/job.h"

// What the main thread of one rank is doing, read from its open calls, Python frames, system call
// and CPU use, in this order of trust: a call that the program itself entered, a frame that names
// the library, a system call, CPU time.
namespace flare::diag {

enum class Doing : uint8_t {
  kUnknown,
  kWaitsForPeers,  // in a collective, send, recv, communicator creation, or torch.distributed
  kDataLoad,
  kCheckpoint,
  kGc,
  kFileSystem,  // a system call on a file, or uninterruptible sleep
  kUserCode,    // computes, sleeps, waits for a child or for input
  kLock,        // sleeps on a futex
};

struct Activity {
  Doing doing = Doing::kUnknown;
  // It holds the rank up whatever asynchronous collectives are still open: begun after them, or
  // seen on the CPU. False for kUnknown and kWaitsForPeers.
  bool busy = false;
  std::string place;      // the frame in words: innermost outside of libraries; empty when unknown
  std::string detail;     // system call and path, or CPU use, in words; empty when unknown
  double cpu_share = -1;  // of the main thread between the last two looks; -1 unknown
  uint64_t since_unix_ns = 0;  // of the call it is in, 0 unknown
};

Activity ActivityOf(const RankRecord& record);

}  // namespace flare::diag
