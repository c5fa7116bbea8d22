// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "diag/import/fragment.h"

// The last gate between a file and the detectors, as message_check.h is for daemons: what an
// importer let through is brought within the limits that detectors count on.
//
// Ranks, steps and calls with impossible numbers are removed, long texts and lists are cut, control
// characters become spaces; the notes say how many.
namespace flare::import {

inline constexpr uint32_t kMostRanks = 1 << 20;
// Times beyond this (the year 2116) and durations beyond kLongestNs are taken for broken.
inline constexpr uint64_t kLastUnixNs = uint64_t{1} << 62;
inline constexpr uint64_t kLongestNs = uint64_t{366} * 86'400 * 1'000'000'000;

void CheckFragment(Fragment* fragment);

}  // namespace flare::import
