// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/own_time.h"

namespace flare::diag {
namespace {

uint64_t Less(uint64_t from, uint64_t amount) { return from > amount ? from - amount : 0; }

}  // namespace

OwnTime OwnTimeOf(const RankStep& step) {
  OwnTime time;
  time.own_ns = Less(step.duration_ns, step.communication_ns);
  for (const PhaseTime& phase : step.phases) {
    if (phase.kind == EventKind::kDataLoad) time.data_load_ns += phase.total_ns;
    if (phase.kind == EventKind::kCheckpoint) time.checkpoint_ns += phase.total_ns;
    if (phase.kind == EventKind::kGc) time.gc_ns += phase.total_ns;
  }
  time.compute_ns =
      Less(Less(Less(time.own_ns, time.data_load_ns), time.checkpoint_ns), time.gc_ns);
  return time;
}

}  // namespace flare::diag
