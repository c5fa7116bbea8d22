// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diag/import/fragment.h"
#include "libflare/core/ids.h"

// Gathers what the lines of a log, or the rows of a table, tell of training steps, and makes
// RankSteps of it.
//
// Memory is bounded: when more than kMostReadings are held, or kMostOfRank of one rank, two
// neighbours become one with their mean. A step told twice (by every rank without its number, say)
// counts once. Numbers that go back by more than kRepeats are a restart: what it repeats is taken
// from the later run, and a run that begins anew is a run of its own, of which the longest is used.
// All of it is said in the notes.
namespace flare::import {

struct StepReading {
  uint64_t step = 0;        // as the program numbers it
  double seconds = 0;       // of one step; 0 = only its rate is told
  uint64_t at_unix_ns = 0;  // when it ended; 0 = not told
  double rate = 0;          // work done in a second, in a unit of the program's own
  double samples = 0, tokens = 0, flop = 0;  // of one step; 0 = not told
};

class StepCollector {
 public:
  static constexpr size_t kMostReadings = 1 << 19;
  static constexpr size_t kMostOfRank = 1 << 16;  // less than kMostSteps
  static constexpr size_t kMostRanks = 1 << 16;
  static constexpr uint64_t kRepeats = 16;

  void Add(std::optional<Rank> rank, const StepReading& reading);
  uint64_t readings() const { return readings_; }  // good ones
  // Time zones are not told, so times are taken as UTC.
  void LocalTime() { local_time_ = true; }
  // Adds the steps to the ranks of the fragment. Empty afterwards.
  void MoveTo(Fragment* fragment);

 private:
  using Run = std::vector<StepReading>;
  struct Series {
    Run run;      // the present one
    Run longest;  // of the earlier ones, when they began anew
    size_t runs = 1;
    uint64_t repeated = 0, undone = 0;
    uint32_t thinned = 1;  // readings that became one
  };

  void Thin(Series* series);
  void AddSteps(std::optional<Rank> rank, Series series, Fragment* fragment);

  std::map<std::optional<Rank>, Series> ranks_;
  uint64_t readings_ = 0, held_ = 0, left_out_ = 0, ranks_left_out_ = 0;
  bool local_time_ = false;
};

}  // namespace flare::import
