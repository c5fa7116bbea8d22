// SPDX-License-Identifier: Apache-2.0
// SettleMoment of clocks.h.
#include <algorithm>
#include <utility>

#include "diag/import/clocks.h"
#include "diag/import/rank_parts.h"

namespace flare::import {
namespace {

constexpr uint64_t kOneLookNs = 10'000'000'000;  // less than HangSettings::fresh_ns
constexpr uint64_t kSteppedOnNs = 1'000'000'000;

using diag::RankRecord;
using diag::RankState;

bool Ended(const RankState& state) {
  return state.process.life == diag::Life::kExited || state.process.life == diag::Life::kDied;
}

// Steps of a trace know their times to the microsecond; those of a log may be in another time zone.
uint64_t TracedStepsEnd(const RankRecord& record) {
  uint64_t last = 0;
  for (const diag::RankStep& step : record.steps) {
    const bool traced = step.device || !step.communicators.empty() || !step.phases.empty();
    if (traced && step.start_unix_ns != 0) {
      last = std::max(last, step.start_unix_ns + step.duration_ns);
    }
  }
  return last;
}

uint64_t StepsEnd(const RankRecord& record) {
  uint64_t last = 0;
  for (const diag::RankStep& step : record.steps) {
    if (step.start_unix_ns != 0) last = std::max(last, step.start_unix_ns + step.duration_ns);
  }
  return last;
}

void Move(int64_t offset_ns, RankState* state) {
  RankFragment carrier;
  std::swap(carrier.record.state, *state);
  ShiftTimes(offset_ns, &carrier);
  std::swap(carrier.record.state, *state);
}

size_t DropOutdated(diag::Job* job) {
  size_t dropped = 0;
  for (auto& [rank, record] : job->ranks) {
    const uint64_t at = record.state.at_unix_ns;
    if (at == 0 || TracedStepsEnd(record) <= at + kSteppedOnNs) continue;
    record.state = RankState();
    ++dropped;
  }
  return dropped;
}

// Dumps of calls know their last call, not their own moment: they were made together, when all
// stood still, and not before the last thing that any of them knows.
void MeetStanding(uint64_t now_ns, diag::Job* job) {
  for (auto& [rank, record] : job->ranks) {
    if (record.state.stands_still) record.state.at_unix_ns = now_ns;
  }
}

// States of ranks that live, brought to `now`. How many of them had moved since the first look.
size_t Gather(uint64_t now_ns, diag::Job* job, uint64_t* first_ns) {
  *first_ns = now_ns;
  for (const auto& [rank, record] : job->ranks) {
    const uint64_t at = record.state.at_unix_ns;
    if (at != 0 && !Ended(record.state)) *first_ns = std::min(*first_ns, at);
  }
  if (now_ns - *first_ns <= kOneLookNs) return 0;
  size_t moved = 0;
  for (auto& [rank, record] : job->ranks) {
    RankState& state = record.state;
    if (state.at_unix_ns == 0 || Ended(state)) continue;
    const uint64_t active = std::max(state.last_progress_unix_ns, state.last_step_unix_ns);
    if (active > *first_ns) {
      state = RankState();
      ++moved;
      continue;
    }
    Move(static_cast<int64_t>(now_ns) - static_cast<int64_t>(state.at_unix_ns), &state);
  }
  return moved;
}

std::string Ranks(size_t count) {
  return std::to_string(count) + (count == 1 ? " rank" : " ranks");
}

}  // namespace

uint64_t SettleMoment(diag::Job* job, std::vector<std::string>* notes) {
  if (const size_t dropped = DropOutdated(job)) {
    notes->push_back("dumps of " + Ranks(dropped) +
                     " were taken before their last step; they say nothing about the end");
  }
  uint64_t now = 0, steps_end = 0;
  bool any_state = false;
  for (const auto& [rank, record] : job->ranks) {
    now = std::max({now, record.state.at_unix_ns, TracedStepsEnd(record)});
    steps_end = std::max(steps_end, StepsEnd(record));
    any_state = any_state || HasState(record.state);
  }
  if (now == 0) now = steps_end;
  if (now == 0) {
    for (const diag::HostSignal& signal : job->signals) now = std::max(now, signal.at_unix_ns);
  }
  if (now == 0 && any_state) now = kNowhereNs;
  for (auto& [rank, record] : job->ranks) {
    // A dump that tells no time was taken at the end of what is known.
    if (HasState(record.state) && record.state.at_unix_ns == 0) record.state.at_unix_ns = now;
    if (Ended(record.state) && record.ended_unix_ns == 0) {
      record.ended_unix_ns = record.state.at_unix_ns;
    }
  }
  MeetStanding(now, job);
  uint64_t first = 0;
  const size_t moved = Gather(now, job, &first);
  if (now - first > kOneLookNs) {
    notes->push_back("the dumps were taken over " + std::to_string((now - first) / 1'000'000'000) +
                     " s; they are read as one moment");
  }
  if (moved > 0) {
    notes->push_back(Ranks(moved) + " moved on between the dumps; where they are is not known");
  }
  return now;
}

}  // namespace flare::import
