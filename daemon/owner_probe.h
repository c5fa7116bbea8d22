// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include "daemon/host/process_probe.h"
#include "daemon/segment_reader.h"

// Tells whether the process that owns a segment lives.
//
// The owner holds a record lock on its file; the kernel releases it at death and not before, except
// when the program closes another descriptor of the file, so a free lock alone is no proof: within
// our PID namespace the process must be gone from /proc too (pid and start time, zombies count as
// gone). In another namespace the lock decides, and it also tells the owner's pid as we see it.
// A pid counts only when its process runs as the user who owns the file: else a segment could have
// us look into processes that are not its maker's.
namespace flare::daemon {

struct OwnerLife {
  bool alive = true;
  bool lock_held = false;
  pid_t pid = 0;       // as seen in our namespace, 0 unknown
  char run_state = 0;  // 0 unknown
};

class OwnerProbe {
 public:
  explicit OwnerProbe(ProcessProbe probe = ProcessProbe());
  // `known_pid`: the pid that an earlier look at this segment gave, whose user was checked then.
  OwnerLife Look(const SegmentReader& segment, pid_t known_pid = 0) const;
  const ProcessProbe& process() const { return probe_; }

 private:
  ProcessProbe probe_;
  uint64_t own_namespace_;
};

}  // namespace flare::daemon
