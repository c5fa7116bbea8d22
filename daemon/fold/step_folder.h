// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/fold/step_accumulator.h"
#include "daemon/tick_clock.h"
#include "flare/v1/event.pb.h"
#include "libflare/core/event.h"

// Turns the events of one rank into one RankStep per step.
//
// An event belongs to the step in which it ended. Threads' rings are read one after the other, so
// an event may be seen later than the boundary that it came before: a step is folded one complete
// poll after its boundary was seen. What comes later still counts for the next step.
//
// A program without step boundaries: once a minute of communication has passed without one, a
// pseudo-step is closed for each second in which something happened. Its number is kFirstPseudoStep
// plus the milliseconds since the Unix epoch at its end: never that of a real step, and not given
// again by a daemon that starts later. The first real boundary ends that for good.
//
// A step whose predecessor was not seen (the daemon came late, boundaries were dropped) has an
// unknown duration: 0. Memory is bounded: events beyond kMaxPending are refused and counted.
// Not thread-safe.
namespace flare::daemon {

inline constexpr uint64_t kFirstPseudoStep = 1ull << 62;

class StepFolder {
 public:
  explicit StepFolder(uint64_t source) : source_(source) {}

  struct Poll {
    uint64_t now_ticks = 0;
    uint64_t cpu_ns = 0;   // CPU time of the process so far, 0 unknown
    bool complete = true;  // everything that waited was drained
    bool last = false;     // the process is gone and drained: fold at once
  };
  // Takes the events of one poll and appends the steps that are complete.
  void Fold(const Poll& poll, std::span<const Event> events, TickClock* clock,
            const StepAccumulator::NameOf& name_of, std::vector<v1::RankStep>* out);

  uint64_t steps() const { return steps_; }
  uint64_t last_end_ticks() const { return previous_.end_ticks; }  // of the step folded last
  uint64_t refused() const { return refused_; }                    // events that did not fit
  uint64_t impossible_times() const { return impossible_times_; }
  size_t pending() const { return pending_.size(); }

  static constexpr size_t kMaxPending = 1u << 17;

 private:
  struct Boundary {
    uint64_t step;
    uint64_t end_ticks;
    uint64_t cpu_ns;
  };

  void Take(const Poll& poll, std::span<const Event> events, const TickClock& clock);
  void AddBoundary(const Poll& poll, const Event& event);
  uint64_t CpuAt(const Poll& poll, uint64_t ticks) const;
  void AddPseudoBoundary(const Poll& poll, TickClock* clock);
  void CloseSteps(size_t count, TickClock* clock, const StepAccumulator::NameOf& name_of,
                  std::vector<v1::RankStep>* out);
  void CloseStep(const Boundary& boundary, StepAccumulator* sums, TickClock* clock,
                 const StepAccumulator::NameOf& name_of, v1::RankStep* out);

  uint64_t source_;
  std::vector<Event> pending_;         // ended, not yet folded
  std::vector<Boundary> boundaries_;   // seen, not yet folded, by time
  std::vector<StepAccumulator> sums_;  // one per step closed together; reused
  bool any_step_ = false;              // a real boundary has been seen
  uint64_t last_pseudo_step_ = 0;
  uint64_t first_event_ticks_ = 0;
  uint64_t pending_collectives_ = 0;
  bool has_previous_ = false;
  Boundary previous_{};
  uint64_t cpu_sample_ticks_ = 0, cpu_sample_ns_ = 0;
  uint64_t steps_ = 0, refused_ = 0, impossible_times_ = 0;
};

}  // namespace flare::daemon
