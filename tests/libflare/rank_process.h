// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "libflare/recorder.h"
#include "libflare/recorder_state.h"

// A forked child that wakes as a rank and runs `body`, since a process wakes at most once. `body`
// returns what is wrong, "" when all is well; so does RunAsRank, which also tells a child that
// died. `settings` are environment variables; the segment lies in a fresh folder that is removed
// afterwards.
namespace flare {

struct RankSettings {
  const char* ring_events = "64";
  const char* threads = "8";
};

std::string RunAsRank(const std::function<std::string()>& body,
                      const RankSettings& settings = RankSettings());

// Runs `body` in a child made by fork, or by the bare system call, and waits. Its exit status, or
// -1.
int RunInFork(const std::function<int()>& body);
int RunInRawClone(const std::function<int()>& body);

// The slot of the calling thread; null when it has none.
ThreadSlot* MySlot();

}  // namespace flare

// For bodies: gives the failed condition back.
#define FLARE_REQUIRE(condition) \
  if (!(condition)) return std::string(__FILE__ ":" + std::to_string(__LINE__) + ": " #condition)
