// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "libflare/core/kernel_class.h"

// Device activities of one process and the launches they came from, in as few bytes as will do.
//
// Launches are matched by correlation whenever a good number has piled up, and forgotten then;
// those of graphs are kept, for many kernels share one. One thread.
namespace flare::import {

struct KernelRow {
  static constexpr int64_t kMaxDuration = int64_t{1} << 45;  // about 10 hours
  static constexpr uint32_t kMaxStreams = 1 << 12;
  static constexpr uint32_t kNoStep = UINT32_MAX;

  int64_t begin_ns = 0;
  int64_t launch = 0;  // correlation, 0 none; once `launched` the time of the launch
  uint64_t duration_ns : 46 = 0;
  uint64_t stream : 12 = 0;
  uint64_t kernel_class : 4 = 0;
  uint64_t memory_operation : 1 = 0;
  uint64_t launched : 1 = 0;
  uint32_t tag = 0;  // DeviceActivity::tag
  uint32_t step = kNoStep;

  int64_t end_ns() const { return begin_ns + static_cast<int64_t>(duration_ns); }
};
static_assert(sizeof(KernelRow) == 32);

class KernelTable {
 public:
  void Add(KernelRow row, uint32_t device, uint64_t stream);
  // False: kept already as many as there may be, so it was not added.
  bool AddLaunch(uint64_t correlation, int64_t begin_ns, bool many, size_t limit);

  // Looks up launches of all rows that still lack theirs.
  void Match();
  void SortByBegin();
  // Rows of each device whose launch is among those of `host`.
  std::map<uint32_t, size_t> MatchesIn(const KernelTable& host) const;

  std::vector<KernelRow>& rows() { return rows_; }
  const std::vector<KernelRow>& rows() const { return rows_; }
  bool has_launches() const { return !launches_.empty() || any_launch_; }
  bool streams_full() const { return streams_.size() >= KernelRow::kMaxStreams; }

 private:
  struct Launch {
    uint64_t correlation;
    int64_t begin_ns : 63;
    uint64_t many : 1;
  };
  static_assert(sizeof(Launch) == 16);
  void SortLaunches();
  uint32_t StreamIndex(uint32_t device, uint64_t stream);

  std::vector<KernelRow> rows_;
  std::vector<Launch> launches_;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> streams_;
  std::pair<uint32_t, uint64_t> last_stream_{UINT32_MAX, 0};
  uint32_t last_index_ = 0;
  size_t match_at_ = size_t{1} << 20;
  bool any_launch_ = false;
};

}  // namespace flare::import
