// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/cpu_wait.h"

#include <algorithm>

namespace flare::diag {
namespace {

// A scheduler gives out the CPU in pieces of some milliseconds; a short look sees one piece or
// none.
constexpr uint64_t kShortestLookNs = 1'000'000'000;

}  // namespace

std::optional<CpuWait> CpuWaitOf(const RankRecord& record) {
  const uint64_t before = record.previous_run_delay_ns, after = record.state.process.run_delay_ns;
  const uint64_t from = record.previous_at_unix_ns, to = record.state.at_unix_ns;
  if (before == 0 || after < before) return std::nullopt;
  if (from == 0 || to < from + kShortestLookNs) return std::nullopt;
  const double share = static_cast<double>(after - before) / static_cast<double>(to - from);
  return CpuWait{std::min(share, 1.0), from, to};
}

}  // namespace flare::diag
