// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libflare/core/ids.h"

// Plain values: something that the host, its devices or a library said beside the training itself.
namespace flare::diag {

enum class SignalKind : uint8_t {
  kUnknown,       // worth showing, and nothing is concluded from it
  kXid,           // NVIDIA driver error; code = Xid number, value = 1 fatal, 0 not, where told
  kSxid,          // NVSwitch error; code = SXid number, value as above
  kEcc,           // memory errors; code = EccFact, value = count
  kGpuLost,       // fallen off the bus, not found
  kGpuClock,      // throttled; code = ClockLimit, value = clock in MHz, if below its maximum
  kNvlinkDown,    // value = links down, if told; code = links that a GPU of its model has up, if told
  kLinkDown,      // InfiniBand or Ethernet port down; device names it; value = share of the
                  // ports of its model on the node that are up, if told
  kLinkFlap,      // lost carrier; value = times
  kLinkErrors,    // symbol, CRC or retransmission errors; value = count
  kGpuDirectOff,  // transport without GPU-direct where the hardware has it
  kCollectiveFallback,  // the collective library gave up a faster way (SHARP, CollNet, NVLS)
  kNcclError,           // an error code or an aborted communicator; code = ncclResult_t, if told
  kNcclTimeout,         // watchdog: a collective ran into its time limit
  kCudaError,           // code = cudaError_t, if told
  kOutOfMemory,         // killer of the kernel (device: "name[pid]"), or the device's allocator
  kCrash,               // segmentation fault, abort; device "name[pid]" where the kernel tells it
  kException,           // uncaught Python exception
  kNodeFault,           // any other statement that a node or device is defective
  kPcieErrors,          // code = 0 corrected, 1 not corrected, 2 fatal; `count` times
  kPcieDegraded,        // narrower or slower than the device can; value = share of its full speed,
                        // code = 1 when a device of its model on the node has more, else 0
  kFileSystemStall,     // the kernel: a task blocked, or a server that does not answer; value =
                        // seconds
  kDeviceHang,  // a watchdog beside the library: work on the device of this rank does not end
  kUnreachable,   // a process does not answer the others; value = 1 when they hold it for dead
  kCountsDiffer,  // members of a communicator made different numbers of calls, when asked
};

// What exactly is said about a GPU's memory.
enum class EccFact : uint8_t {
  kVolatileUncorrectable,   // since the driver was loaded
  kAggregateUncorrectable,  // over the life of the device
  kRetiredPages,            // pages taken out of use, for whatever errors
  kRetirementPending,       // a page or row will be taken out of use at the next reset
  kRetirementFailed,        // a page or row could not be taken out of use
};

// Why a clock is below what was asked for.
enum class ClockLimit : uint8_t { kThermal, kPowerBrake, kPowerCap, kOther };

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
