// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diag/import/fragment.h"
#include "diag/model/job.h"

// Times of many files on one clock, and the one moment at which detectors look.
namespace flare::import {

// Members of a collective end it together: within this, ranks were in the same collectives. On
// devices the ends lie some tens of microseconds apart. A wider limit would take the calls of two
// groups that run in step, or calls that are one off, for the same.
inline constexpr uint64_t kPairsNs = 1'000'000;

// Where times without an origin end. Far enough from zero, which means "not told".
inline constexpr uint64_t kNowhereNs = 1'000'000'000'000'000'000;

// Shifts the clocks of files so that members of a collective end it together: by the median over
// the collectives that a file shares with those aligned before. A file whose collectives do not end
// together (their distance varies by more than kPairsNs) shows other collectives: its communicators
// are taken out, for nothing may be concluded from them. Times without an origin that share no
// collective are laid so that they end with the others.
//
// True when one of the files tells absolute times: then all times are.
bool AlignClocks(std::vector<Fragment>* files, std::vector<std::string>* notes);

// The last moment known of `job`, and every state brought to it. States of one look (within 10 s)
// stay as they are. Older ones are moved up, with the length of their waits kept, when their ranks
// had not moved since the first look. Ranks that had moved, or stepped on after their dump, lose
// their state: it says nothing about that moment.
uint64_t SettleMoment(diag::Job* job, std::vector<std::string>* notes);

}  // namespace flare::import
