// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/fold/intervals.h"
#include "daemon/tick_clock.h"
#include "flare/v1/event.pb.h"
#include "libflare/core/event.h"

// Sums up the events of one step of one rank. Reused from step to step, so that after the first
// few it allocates nothing. Bounded: phases and communicators beyond a limit are merged or counted
// as refused. Not thread-safe.
namespace flare::daemon {

class StepAccumulator {
 public:
  using NameOf = std::function<const std::string&(uint32_t name_id)>;

  void Clear();
  // False when the event had to be refused (too many communicators in one step).
  bool Add(const Event& event);

  // The sums as a message; `start_ticks` and `end_ticks` bound the step. Fills everything but
  // source, step number, CPU time and drops.
  void Finish(uint64_t start_ticks, uint64_t end_ticks, const TickClock& clock,
              const NameOf& name_of, v1::RankStep* out);

  uint32_t events() const { return events_; }
  uint64_t earliest_start() const { return earliest_start_; }

  static constexpr size_t kMaxPhases = 64;
  static constexpr size_t kMaxCommunicators = 64;
  static constexpr size_t kMaxListedDurations = 128;

 private:
  struct Phase {
    EventKind kind;
    uint32_t name_id;
    uint32_t count;
    uint64_t total_ticks, longest_ticks;
  };
  struct Totals {
    Operation operation;
    DataType data_type;
    uint32_t count;
    uint64_t bytes, total_ticks;
  };
  struct Collective {
    uint64_t sequence, bytes, duration_ticks;
    int32_t root;
    Operation operation;
    DataType data_type;
    uint8_t flags;
  };
  struct Communicator {
    uint64_t id = 0;
    std::vector<Collective> collectives;
    std::vector<Totals> totals;
  };

  void AddPhase(EventKind kind, uint32_t name_id, uint64_t ticks);
  Communicator* FindCommunicator(uint64_t id);
  static void AddTotals(const Event& event, uint64_t ticks, std::vector<Totals>* totals);
  static void FinishCommunicator(Communicator* communicator, const TickClock& clock,
                                 v1::CommunicatorStep* out);

  std::vector<Phase> phases_;
  std::vector<Communicator> communicators_;  // the first communicator_count_ are in use
  size_t communicator_count_ = 0;
  size_t last_communicator_ = 0;
  std::vector<Interval> communication_;
  uint32_t events_ = 0;
  uint64_t earliest_start_ = ~0ull;
};

}  // namespace flare::daemon
