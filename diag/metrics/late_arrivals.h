// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

#include "diag/model/job.h"

// Which ranks come last to collectives, counted collective by collective: for recordings of a few
// steps, where steps are too few to count.
//
// A collective counts when the longest wait in it is at least kWorthCountingNs; below that the
// order of arrival is the jitter of kernel launches. If no rank were special, each of the n members
// of a collective would be last with chance 1/n; `false_alarm` is the probability that a rank is
// last as often as it was, or more often, times the number of ranks, for each is looked at. The
// chance over communicators of different sizes is their mean, which only makes large counts more
// probable (Hoeffding 1956).
//
// Of several late ranks one hides the others: whoever is later is last. So the rank with the least
// false alarm, if it is late, is set aside with the collectives in which it was last, and the rest
// are asked again among themselves.
namespace flare::diag {

inline constexpr uint64_t kWorthCountingNs = 50'000;

struct LateRank {
  uint32_t collectives = 0;  // that counted, with this rank as a member
  uint32_t last = 0;         // in which it was the last
  double expected_last = 0;  // by chance, ranks set aside before it left out
  double false_alarm = 1;
  bool is_late = false;
  uint64_t caused_ns = 0;   // what each of the others waited for it on average, summed
  uint64_t charged_ns = 0;  // the same over all others together, after WaitCaused() passed it on
};

// Over all steps; late are those whose false alarm is at most this. Ranks that take part in no
// collective that counts are missing.
std::map<Rank, LateRank> LateArrivals(const Job& job, double false_alarm);

}  // namespace flare::diag
