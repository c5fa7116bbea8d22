// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "diag/model/finding.h"
#include "diag/model/job.h"

// Finds a job that no longer moves, and says which rank holds it up and why.
//
// Pure: the same job and time give the same verdicts, and nothing is remembered between looks; the
// finding tracker gives verdicts a life. Conclusive verdicts rest on facts that no healthy job
// shows (a process stopped, dead or gone while others need it, collectives that disagree, a cycle
// of waiting). All others name where a rank seems to be held up and only become open findings when
// nothing has moved for a long time.
//
// A rank counts as a witness only while its state is fresh (at most `fresh_ns` old): states that
// stopped coming say nothing about the job. A rank never heard of is unknown, not missing.
namespace flare::diag {

inline constexpr uint64_t kSecondNs = 1'000'000'000;

struct HangSettings {
  // A wait is suspicious after clamp(slow_steps x slow step time, min_stall, max_stall).
  double slow_steps = 5;
  uint64_t min_stall_ns = 2 * kSecondNs;
  uint64_t max_stall_ns = 30 * kSecondNs;
  // Before the first collective has completed, ranks import, compile and find each other.
  uint64_t startup_stall_ns = 60 * kSecondNs;
  // Conclusive evidence needs a wait of only this long.
  uint64_t conclusive_stall_ns = 3 * kSecondNs / 2;
  // Inconclusive verdicts open after max(open_ns, open_slow_steps x slow step time).
  uint64_t open_ns = 60 * kSecondNs;
  double open_slow_steps = 20;
  uint64_t stopped_ns = kSecondNs;               // how long a process is stopped before it counts
  uint64_t death_settle_ns = 3 * kSecondNs / 2;  // time for the others to follow a death
  uint64_t exit_settle_ns = 3 * kSecondNs;       // time for the others to follow a normal exit
  uint64_t raise_settle_ns = 7 * kSecondNs;  // time for a launcher to end a job after an exception
  // Daemons report a rank that moves every 5 s, one that does not twice a second.
  uint64_t fresh_ns = 12 * kSecondNs;
  // A rank that keeps others waiting this long is worth a word even while it makes progress itself.
  uint64_t slow_but_moving_ns = 8 * kSecondNs;
};

std::vector<Verdict> DetectHang(const Job& job, uint64_t now_unix_ns,
                                const HangSettings& settings = {});

}  // namespace flare::diag
