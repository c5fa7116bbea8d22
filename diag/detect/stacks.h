// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "diag/model/finding.h"
#include "diag/model/job.h"

// Finds who holds a job up from a dump of stacks alone, when no open calls are known.
//
// A process whose main thread waits in a collective, a send or a recv waits for others. A process
// that is blocked elsewhere (data loader, checkpoint, lock, file, collection) waits for none of
// them, so the others wait for it, if they belong to its groups. That it is they who are few and
// the waiting who are many is what tells a hang from a moment of a healthy job: ranks of a step do
// the same at about the same time, and to catch nearly all in communication and a few at an
// unrelated wait is rare unless the latter last long.
//
// But a dump is one moment. Nothing here is conclusive, and the action asks for a second dump.
//
//   blocked elsewhere: at most as many as wait, and at most a quarter computes      -> named
//   computing: one, or an eighth, while three quarters wait in collectives          -> named
//   all wait, in different collectives; or one rank alone in a barrier while others
//   wait for messages or their devices                                  -> said, nobody named
//   anything else, as all in one collective, or a job in the middle of a step       -> nothing
//
// Waits for messages (send, recv) do not count for the second rule: in a pipeline one stage
// computes while all others wait for messages, again and again.
namespace flare::diag {

struct StackSettings {
  double most_computing = 0.25;  // of all processes, beside those blocked elsewhere
  double least_waiting = 0.75;   // in collectives, before a computing one is named
  double most_late = 0.125;      // of computing ones that are named
  size_t least_processes = 4;    // for the rules that rest on a majority of collectives
  double most_confidence = 0.7;  // of one moment
};

std::vector<Verdict> DetectStacks(const Job& job, uint64_t now_unix_ns,
                                  const StackSettings& settings = {});

}  // namespace flare::diag
