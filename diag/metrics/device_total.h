// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "diag/model/device.h"
#include "diag/model/job.h"

// Device work of many steps as one: sums of times and counts, merged distributions, the largest
// number of streams, all devices. Of matrix products the kMostGemms shapes that take longest.
namespace flare::diag {

class DeviceTotal {
 public:
  static constexpr size_t kMostGemms = 64;

  void Add(const DeviceStep& step);
  DeviceStep Sum() const;

 private:
  using Shape = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, DataType>;

  DeviceStep sum_;
  std::array<KernelTotals, kKernelClassCount> classes_{};
  std::map<Shape, GemmTotals> gemms_;
};

// The device over the last `most_steps` steps of a rank that have one.
struct RankDevice {
  uint32_t steps = 0;
  uint64_t steps_ns = 0;  // duration of these steps together
  DeviceStep device;
};
RankDevice DeviceOver(const RankRecord& rank, size_t most_steps);

}  // namespace flare::diag
