// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diag/model/job.h"
#include "libflare/core/ids.h"

// What one file says about a job, before the files of its ranks are joined (join.h).
//
// The values are those that daemons send, as diag/model has them, so that the same detectors read
// them. An importer says what the file says and nothing more: what is absent stays absent.
namespace flare::import {

// Steps kept for each rank; of longer files the last ones.
inline constexpr size_t kMostSteps = 100'000;

// When a collective ended, by the clock of its rank: tells how far clocks of ranks are apart, for
// all members end it together. Only ends on the device or completions count, never launches.
struct CollectiveEnd {
  CommId communicator;
  uint64_t sequence = 0;
  uint64_t at_unix_ns = 0;
};
inline constexpr size_t kMostCollectiveEnds = 4096;  // for each rank; any others are left out

// One rank (or one process of unknown rank) as one file shows it.
struct RankFragment {
  std::optional<Rank> rank;  // not told: the joiner numbers it, and says so
  uint32_t world_size = 0;   // 0 not told
  // node, pid, framework, state, steps. `record.rank` and `record.source` are the joiner's.
  // A process whose stacks or calls were dumped lives: Life::kRunning, and `at_unix_ns` if told.
  diag::RankRecord record;
  std::vector<CollectiveEnd> collective_ends;
  uint64_t steps_left_out = 0;  // counted by KeepStep
};

// Appends a step; beyond kMostSteps the oldest goes.
void KeepStep(diag::RankStep step, RankFragment* rank);

struct Fragment {
  std::string kind;  // of the importer
  std::string path;
  // Equal for files of one job, when the file has such a thing (a job id, the name of a run). Files
  // with different identities are never joined.
  std::string identity;
  std::string framework;
  std::vector<RankFragment> ranks;
  std::vector<diag::HostSignal> signals;
  // False: times count from an unknown origin of this file alone, and only differences mean
  // anything. Zero still means "not told": let such times begin somewhere above it.
  bool absolute_time = true;
  // What was left out or guessed, as sentences for people: "12 events without duration left out".
  std::vector<std::string> notes;
};

}  // namespace flare::import
