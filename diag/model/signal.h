// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libflare/core/ids.h"

// Plain values: something that the host, its devices or a library said beside the training itself.
namespace flare::diag {

enum class SignalKind : uint8_t {
  kUnknown,
  kXid,               // NVIDIA driver error; code = Xid number
  kSxid,              // NVSwitch error; code = SXid number
  kEcc,               // uncorrectable memory errors, retired pages or remapped rows; value = count
  kGpuLost,           // fallen off the bus, not found
  kGpuClock,          // throttled; text says thermal, power or other; value = clock in MHz
  kNvlinkDown,        // value = links down
  kLinkDown,          // InfiniBand or Ethernet port down; device names it
  kLinkFlap,          // lost carrier; value = times
  kLinkErrors,        // symbol, CRC or retransmission errors; value = count
  kGpuDirectOff,      // transport without GPU-direct where the hardware has it
  kCollectiveFallback,  // the collective library gave up a faster way (SHARP, CollNet, NVLS)
  kNcclError,         // an error code or an aborted communicator; code = ncclResult_t, if told
  kNcclTimeout,       // watchdog: a collective ran into its time limit
  kCudaError,         // code = cudaError_t, if told
  kOutOfMemory,       // killer of the kernel, or the device's allocator
  kCrash,             // segmentation fault, abort
  kException,         // uncaught Python exception
  kNodeFault,         // any other statement that a node or device is defective
  kUnreachable,       // a process does not answer the others; value = 1 when they hold it for dead
  kCountsDiffer,      // members of a communicator have made different numbers of calls, when asked
};

// One statement. What is not told is empty; `rank` and `device` may both be absent.
struct HostSignal {
  SignalKind kind = SignalKind::kUnknown;
  uint64_t at_unix_ns = 0;  // 0 = not told
  std::optional<Rank> rank;
  std::string node;
  std::string device;  // PCI address, GPU index, port
  std::optional<int64_t> code;
  std::optional<double> value;
  uint64_t count = 1;  // equal statements in a row are told once
  std::string text;    // the line or field itself, at most 500 bytes
  std::string source;  // file and line, or collector
};

}  // namespace flare::diag
