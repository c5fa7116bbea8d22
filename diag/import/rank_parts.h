// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diag/import/fragment.h"

// Questions about what files say of one rank, and how two of them become one.
namespace flare::import {

// Something was seen of the process: calls, communicators, stacks, its life.
bool HasState(const diag::RankState& state);

// Whether two files of one kind say the same of a rank: a copy.
bool SameContent(const RankFragment& a, const RankFragment& b);

// Whether two files of one kind can be about the same process: a copy, a later profile, a later
// dump. Contradictions tell two runs apart.
bool CanBeOneProcess(const RankFragment& a, const RankFragment& b);

// First and last moment that a file knows of a rank; {0, 0} when it tells no time.
struct Window {
  uint64_t first_ns = 0, last_ns = 0;
  bool empty() const { return last_ns == 0; }
};
Window WindowOf(const RankFragment& rank);

// Time between two windows that do not overlap, else 0.
uint64_t Gap(const Window& a, const Window& b);

// Adds what `more` says of the same rank. What both say is taken from the one that says more; the
// notes tell what was left out. `kind` and `more_kind` are those of the files.
void MergeRank(RankFragment more, const std::string& more_kind, RankFragment* rank,
               std::string* kind, std::vector<std::string>* notes);

// A time, or all of a rank, moved by `offset_ns`, zero (not told) excepted. Never below 1.
void ShiftTime(int64_t offset_ns, uint64_t* at);
void ShiftTimes(int64_t offset_ns, RankFragment* rank);

}  // namespace flare::import
