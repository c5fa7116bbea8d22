// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

// One line of the log that NCCL and RCCL write with NCCL_DEBUG, taken apart:
//
//   host:pid:tid [dev] NCCL INFO message
//   host:pid:tid [dev] file.cc:123 NCCL WARN message
//   [2025-01-08 12:04:21] host:pid:tid [dev] NCCL INFO message
//
// Texts refer to the line. Pure.
namespace flare::import {

struct NcclLine {
  std::string_view host;
  int64_t pid = 0;
  int64_t device = -1;
  bool warning = false;
  std::string_view place;  // "transport.cc:253", of warnings
  std::string_view message;
};

std::optional<NcclLine> ParseNcclLine(std::string_view line);

// "comm 0x5581 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 4e000 commId 0x9c86 - Init COMPLETE", with
// more or fewer fields in other versions.
struct NcclComm {
  uint64_t id = 0;       // equal on all members; 0: the version does not tell
  uint64_t pointer = 0;  // of the process
  uint32_t rank = 0, ranks = 0;
  int64_t device = -1;
  std::string_view bus_id;
  std::string_view what;  // "Init COMPLETE"
};

std::optional<NcclComm> ParseNcclComm(std::string_view message);

// "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IBext/0/GDRDMA".
struct NcclTransport {
  bool network = false;
  bool gpu_direct = false;
  std::string_view name;  // "NET/IBext", "P2P/IPC", "SHM"
};

std::optional<NcclTransport> ParseNcclTransport(std::string_view message);

}  // namespace flare::import
