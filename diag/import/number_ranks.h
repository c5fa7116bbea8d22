// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diag/import/fragment.h"

// Gives numbers to ranks that their files do not tell. Every guess becomes a note.
//
// In this order: "rank 3" in the name of the file; for dumps without steps, the one number in which
// the names of files of a kind and folder differ; a single process with steps is taken for rank 0,
// several of them in one file are numbered in their order. What is left has no number: a process
// known by its pid alone, which may be one of the ranks of other files.
namespace flare::import {

void NumberRanks(std::vector<Fragment>* fragments);

// The number after the word "rank" in the last part of a path: "trace_rank-12.json" gives 12.
std::optional<uint32_t> RankInName(const std::string& path);

// The numbers in which names differ, when that is all in which they differ: "_dump_0", "_dump_13"
// give 0 and 13. Empty when they differ otherwise, or when the numbers look like no ranks.
std::vector<uint32_t> NumbersInNames(const std::vector<std::string>& names);

}  // namespace flare::import
