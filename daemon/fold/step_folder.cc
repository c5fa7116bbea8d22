// SPDX-License-Identifier: Apache-2.0
#include "daemon/fold/step_folder.h"

#include <algorithm>

namespace flare::daemon {
namespace {

constexpr uint64_t kFutureToleranceNs = 1'000'000'000;
// Compilation before the first step may take minutes but communicates little, which is why both
// the time and the number of collectives must be reached before we stop to wait for a boundary.
constexpr uint64_t kPatienceNs = 60'000'000'000;
constexpr uint64_t kMinPseudoCollectives = 16;
constexpr uint64_t kPseudoStepNs = 1'000'000'000;
constexpr size_t kMaxStepsAtOnce = 256;

}  // namespace

void StepFolder::Fold(const Poll& poll, std::span<const Event> events, TickClock* clock,
                      const StepAccumulator::NameOf& name_of, std::vector<v1::RankStep>* out) {
  const size_t seen_before = boundaries_.size();
  Take(poll, events, *clock);
  if (!any_step_) AddPseudoBoundary(poll, clock);
  if (poll.cpu_ns != 0) {
    cpu_sample_ticks_ = poll.now_ticks;
    cpu_sample_ns_ = poll.cpu_ns;
  }
  // A boundary is ripe when a complete poll began after it was seen. New ones go behind the old by
  // time, so the first `ripe` are those of earlier polls.
  size_t ripe = poll.complete ? std::min(seen_before, boundaries_.size()) : 0;
  if (poll.last) ripe = boundaries_.size();
  while (ripe > 0) {
    const size_t count = std::min(ripe, kMaxStepsAtOnce);
    CloseSteps(count, clock, name_of, out);
    ripe -= count;
  }
}

void StepFolder::Take(const Poll& poll, std::span<const Event> events, const TickClock& clock) {
  const uint64_t latest = poll.now_ticks + clock.TicksFromNs(kFutureToleranceNs);
  bool sorted = true;
  for (const Event& event : events) {
    uint64_t end = event.end_ticks;
    if (end > latest) {
      end = poll.now_ticks;
      ++impossible_times_;
    }
    if (event.kind == EventKind::kStep) {
      Event boundary = event;
      boundary.end_ticks = end;
      AddBoundary(poll, boundary);
      sorted = boundaries_.size() < 2 ||
               (sorted && boundaries_[boundaries_.size() - 2].end_ticks <= end);
      continue;
    }
    if (pending_.size() >= kMaxPending) {
      ++refused_;
      continue;
    }
    pending_.push_back(event);
    Event& kept = pending_.back();
    kept.end_ticks = end;
    if (kept.start_ticks > end) {
      kept.start_ticks = end;
      ++impossible_times_;
    }
    pending_collectives_ += kept.kind == EventKind::kCollective;
    if (first_event_ticks_ == 0) first_event_ticks_ = end;
  }
  if (!sorted) {
    std::stable_sort(
        boundaries_.begin(), boundaries_.end(),
        [](const Boundary& a, const Boundary& b) { return a.end_ticks < b.end_ticks; });
  }
}

void StepFolder::AddBoundary(const Poll& poll, const Event& event) {
  if (boundaries_.size() >= kMaxPending) {
    ++refused_;
    return;
  }
  any_step_ = true;
  // Numbers from kFirstPseudoStep on are ours.
  const uint64_t step = event.sequence & (kFirstPseudoStep - 1);
  boundaries_.push_back({step, event.end_ticks, CpuAt(poll, event.end_ticks)});
}

// CPU time is sampled once per poll; at a boundary between two samples it is taken as linear.
uint64_t StepFolder::CpuAt(const Poll& poll, uint64_t ticks) const {
  if (poll.cpu_ns == 0 || cpu_sample_ns_ == 0 || poll.cpu_ns < cpu_sample_ns_) return 0;
  if (ticks <= cpu_sample_ticks_) return cpu_sample_ns_;
  if (ticks >= poll.now_ticks) return poll.cpu_ns;
  const double share = static_cast<double>(ticks - cpu_sample_ticks_) /
                       static_cast<double>(poll.now_ticks - cpu_sample_ticks_);
  return cpu_sample_ns_ +
         static_cast<uint64_t>(share * static_cast<double>(poll.cpu_ns - cpu_sample_ns_));
}

void StepFolder::AddPseudoBoundary(const Poll& poll, TickClock* clock) {
  if (pending_.empty() || !boundaries_.empty()) return;
  const uint64_t waited_ticks =
      poll.now_ticks > first_event_ticks_ ? poll.now_ticks - first_event_ticks_ : 0;
  const bool impatient = last_pseudo_step_ != 0 || pending_.size() > kMaxPending / 2 ||
                         (waited_ticks > clock->TicksFromNs(kPatienceNs) &&
                          pending_collectives_ >= kMinPseudoCollectives);
  if (!impatient) return;
  const auto [oldest, newest] =
      std::minmax_element(pending_.begin(), pending_.end(),
                          [](const Event& a, const Event& b) { return a.end_ticks < b.end_ticks; });
  const uint64_t age = poll.now_ticks > oldest->end_ticks ? poll.now_ticks - oldest->end_ticks : 0;
  if (age < clock->TicksFromNs(kPseudoStepNs) && pending_.size() <= kMaxPending / 2) return;
  const uint64_t by_time = kFirstPseudoStep + clock->ToUnixNs(newest->end_ticks) / 1'000'000;
  last_pseudo_step_ = std::max(by_time, last_pseudo_step_ + 1);
  boundaries_.push_back({last_pseudo_step_, newest->end_ticks, CpuAt(poll, newest->end_ticks)});
}

void StepFolder::CloseSteps(size_t count, TickClock* clock, const StepAccumulator::NameOf& name_of,
                            std::vector<v1::RankStep>* out) {
  if (sums_.size() < count) sums_.resize(count);
  for (size_t i = 0; i < count; ++i) sums_[i].Clear();
  const uint64_t last_end = boundaries_[count - 1].end_ticks;
  size_t kept = 0;
  size_t hint = 0;
  for (size_t i = 0; i < pending_.size(); ++i) {
    const Event& event = pending_[i];
    if (event.end_ticks > last_end) {
      if (kept != i) pending_[kept] = event;
      ++kept;
      continue;
    }
    // Mostly the same step as the event before, or the next.
    const auto ends_in = [&](size_t b) {
      return event.end_ticks <= boundaries_[b].end_ticks &&
             (b == 0 || event.end_ticks > boundaries_[b - 1].end_ticks);
    };
    if (!ends_in(hint) && !(hint + 1 < count && ends_in(++hint))) {
      const auto it = std::lower_bound(
          boundaries_.begin(), boundaries_.begin() + static_cast<ptrdiff_t>(count), event.end_ticks,
          [](const Boundary& b, uint64_t ticks) { return b.end_ticks < ticks; });
      hint = static_cast<size_t>(it - boundaries_.begin());
    }
    pending_collectives_ -= event.kind == EventKind::kCollective;
    if (!sums_[hint].Add(event)) ++refused_;
  }
  pending_.resize(kept);
  for (size_t i = 0; i < count; ++i) {
    CloseStep(boundaries_[i], &sums_[i], clock, name_of, &out->emplace_back());
  }
  boundaries_.erase(boundaries_.begin(), boundaries_.begin() + static_cast<ptrdiff_t>(count));
}

void StepFolder::CloseStep(const Boundary& boundary, StepAccumulator* sums, TickClock* clock,
                           const StepAccumulator::NameOf& name_of, v1::RankStep* out) {
  const bool pseudo = boundary.step >= kFirstPseudoStep;
  const bool next =
      pseudo ? previous_.step >= kFirstPseudoStep : boundary.step == previous_.step + 1;
  const bool consecutive = has_previous_ && next && boundary.end_ticks >= previous_.end_ticks;
  uint64_t start = boundary.end_ticks;  // unknown: a step of no length
  if (consecutive) {
    start = previous_.end_ticks;
  } else if (boundary.step == 0 || pseudo) {
    start = std::min(start, sums->earliest_start());
  }
  // The union is taken over the known span; without one, over what the events themselves span.
  const uint64_t from = start < boundary.end_ticks ? start : 0;
  sums->Finish(from, boundary.end_ticks, *clock, name_of, out);
  out->set_source(source_);
  out->set_step(boundary.step);
  out->set_start_unix_ns(clock->ToUnixNs(start));
  out->set_duration_ns(clock->DurationNs(boundary.end_ticks - start));
  if (consecutive && previous_.cpu_ns != 0 && boundary.cpu_ns > previous_.cpu_ns) {
    out->set_cpu_ns(boundary.cpu_ns - previous_.cpu_ns);
  }
  previous_ = boundary;
  has_previous_ = true;
  ++steps_;
}

}  // namespace flare::daemon
