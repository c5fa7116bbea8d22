// SPDX-License-Identifier: Apache-2.0
#include "daemon/owner_probe.h"

#include <unistd.h>

namespace flare::daemon {
namespace {

bool IsGone(char run_state) { return run_state == 'Z' || run_state == 'X' || run_state == 'x'; }

}  // namespace

OwnerProbe::OwnerProbe(ProcessProbe probe)
    : probe_(std::move(probe)), own_namespace_(probe_.PidNamespace(getpid())) {}

OwnerLife OwnerProbe::Look(const SegmentReader& segment, pid_t known_pid) const {
  const SegmentIdentity& id = segment.identity();
  OwnerLife life;
  const pid_t holder = segment.LockHolder();
  life.lock_held = holder != 0;
  // An unknown namespace is taken for ours: then pid and start time must still match.
  const bool same_namespace =
      id.pid_namespace == 0 || own_namespace_ == 0 || id.pid_namespace == own_namespace_;
  if (same_namespace) {
    if (const auto stat = probe_.Stat(id.pid);
        stat &&
        (id.process_start_clock_ticks == 0 ||
         stat->start_clock_ticks == id.process_start_clock_ticks) &&
        (id.pid == known_pid || probe_.RunsAs(id.pid, segment.uid()))) {
      life.pid = id.pid;
      life.run_state = stat->run_state;
    }
    // A zombie whose lock is held is only a main thread that has ended before the others.
    life.alive = life.lock_held || (life.pid != 0 && !IsGone(life.run_state));
    return life;
  }
  life.alive = life.lock_held;
  if (holder > 0 && (holder == known_pid || probe_.RunsAs(holder, segment.uid()))) {
    life.pid = holder;
    if (const auto stat = probe_.Stat(holder)) life.run_state = stat->run_state;
  }
  return life;
}

}  // namespace flare::daemon
