// SPDX-License-Identifier: Apache-2.0
#include "diag/report/device_view.h"

#include <algorithm>
#include <vector>

#include "libflare/core/quantile_sketch.h"

namespace flare::diag {

std::optional<DeviceShares> SharesOf(const v1::DeviceStep& device) {
  DeviceShares shares;
  shares.observed_ns =
      device.span_ns() + std::min(device.inter_step_ns(), UINT64_MAX - device.span_ns());
  if (shares.observed_ns == 0) return std::nullopt;
  const auto share = [&](uint64_t part_ns) {
    return std::min(1.0, static_cast<double>(part_ns) / static_cast<double>(shares.observed_ns));
  };
  shares.busy = share(device.busy_ns());
  shares.idle = 1 - shares.busy;
  shares.compute = share(device.compute_ns());
  shares.communication = share(device.communication_ns());
  shares.memory = share(device.memory_ns());
  const uint64_t hidden_ns = std::min(device.overlap_ns(), device.communication_ns());
  shares.exposed = share(device.communication_ns() - hidden_ns);
  shares.between_steps = share(device.inter_step_ns());
  if (device.communication_ns() > 0) {
    shares.overlap =
        static_cast<double>(hidden_ns) / static_cast<double>(device.communication_ns());
  }
  return shares;
}

std::optional<double> QuantileSeconds(const v1::QuantileSketch& sketch, double fraction) {
  std::vector<QuantileSketch::Bucket> buckets;
  int64_t index = 0;
  const int size = std::min(sketch.index_delta_size(), sketch.count_size());
  for (int i = 0; i < size; ++i) {
    index += sketch.index_delta(i);
    const bool fits = index >= INT32_MIN && index <= INT32_MAX;
    buckets.push_back({fits ? static_cast<int32_t>(index) : INT32_MAX, sketch.count(i)});
  }
  const QuantileSketch whole = QuantileSketch::FromBuckets(buckets, sketch.sum());
  if (whole.count() == 0) return std::nullopt;
  return whole.Quantile(fraction) * 1e-9;
}

}  // namespace flare::diag
