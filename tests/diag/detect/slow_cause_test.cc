// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/slow_cause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "diag/detect/fail_slow.h"
#include "diag/detect/finding_tracker.h"
#include "tests/diag/detect/step_simulator.h"

// What slows a rank down, in tables: work that takes longer, and neighbours that take the CPU. In
// each row rank 1 of a job becomes slower after some healthy steps; every few steps it is looked
// at.
namespace flare::diag {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint32_t kSlow = 1;
constexpr uint64_t kHealthySteps = 40;

// Of the steps of the slow rank, relative to a healthy step of 100 ms.
struct Burden {
  double compute = 0;       // more CPU time
  double queue = 0;         // ready, without a CPU
  double sleep = 0;         // neither
  double queue_of_all = 0;  // of the work of every rank, on top
};

struct Case {
  uint32_t ranks = 2;
  uint32_t seed = 1;
  bool counts_queue = true;
  double jitter = 0.03;
  double step_ms = 100;
};

// Plays a job and keeps what was ever said.
class History {
 public:
  explicit History(const Case& c) : c_(c), sim_(c.ranks, c.seed), tracker_("job") {
    sim_.counts_queue = c.counts_queue;
    for (uint64_t i = 0; i < kHealthySteps; ++i) Step({});
  }

  void Play(const Burden& burden, double seconds) {
    const double until_s = sim_.now_s() + seconds;
    for (int i = 0; sim_.now_s() < until_s; ++i) {
      Step(burden);
      if (i % 5 == 0) Look();
    }
  }
  void Look() {
    verdicts_ = DetectFailSlow(sim_.job(), sim_.now_unix_ns());
    tracker_.Update(sim_.job(), verdicts_, sim_.now_unix_ns());
    for (const Finding& f : tracker_.findings()) {
      if (f.state == FindingState::kOpen) opened_ = f.verdict.cause;
    }
  }
  StepSimulator& sim() { return sim_; }
  const std::string& opened() const { return opened_; }  // cause that was ever open
  std::string cause() const { return verdicts_.empty() ? "" : verdicts_[0].cause; }
  const std::vector<Verdict>& verdicts() const { return verdicts_; }

 private:
  void Step(const Burden& burden) {
    std::normal_distribution<double> normal(0, c_.jitter);
    sim_.Step([&](uint32_t rank, uint64_t, double) {
      const double healthy = c_.step_ms * std::exp(normal(sim_.random()));
      SimulatedStep step{healthy, 0, 0};
      if (rank == kSlow) step.compute_ms += healthy * burden.compute;
      step.queue_ms = step.compute_ms * burden.queue_of_all;
      if (rank != kSlow) return step;
      step.queue_ms += healthy * burden.queue;
      step.wait_ms = healthy * burden.sleep;
      return step;
    });
  }

  const Case c_;
  StepSimulator sim_;
  FindingTracker tracker_;
  std::vector<Verdict> verdicts_;
  std::string opened_;
};

TEST(SlowCauseTest, WorkThatTakesThirtyPercentLongerOpens) {
  for (const uint32_t ranks : {2u, 4u, 8u}) {
    for (const double longer : {0.3, 0.5, 1.0}) {
      for (const bool counts : {true, false}) {
        for (const double step_ms : {60.0, 160.0}) {
          History history({ranks, ranks, counts, 0.04, step_ms});
          history.Play({.compute = longer}, 20);
          EXPECT_EQ(history.opened(), "compute_slow")
              << ranks << " ranks, " << longer << " longer, counts " << counts << ", " << step_ms;
          EXPECT_THAT(history.verdicts().at(0).ranks, ElementsAre(Rank(kSlow)));
        }
      }
    }
  }
}

// A neighbour takes the CPU, and by cache and core costs up to 15 % more CPU time.
TEST(SlowCauseTest, NeighboursNeverOpenASlowCompute) {
  int said = 0;
  for (int own = 10; own <= 60; own += 5) {
    for (int cpu = 0; cpu <= std::min(15, own); cpu += 5) {
      for (const bool counts : {true, false}) {
        for (const uint32_t ranks : {2u, 4u}) {
          History history({ranks, static_cast<uint32_t>(own * 100 + cpu), counts, 0.05, 100});
          history.Play({.compute = cpu / 100.0, .queue = (own - cpu) / 100.0}, 30);
          said += !history.cause().empty();
          EXPECT_NE(history.opened(), "compute_slow")
              << own << " % more own time, " << cpu << " % more CPU, counts " << counts;
        }
      }
    }
  }
  EXPECT_GT(said, 100) << "the rows must be slow enough to be talked about";
}

// The machine is full: who works longer also waits longer, by the same ratio as everybody.
TEST(SlowCauseTest, FullMachineProvesNothingAboutOneRank) {
  for (const double all : {0.3, 1.0}) {
    for (const double longer : {0.15, 0.3}) {
      History history({2, 7, true, 0.05, 100});
      history.Play({.compute = longer, .queue_of_all = all}, 30);
      EXPECT_EQ(history.opened(), "") << all << " " << longer;
      EXPECT_EQ(history.cause(), "compute_slow") << all << " " << longer;
    }
  }
}

TEST(SlowCauseTest, WaitForTheCpuIsSuspectedAtOnceAndOpensWhenItLasts) {
  History history({3, 3});
  history.Play({.compute = 0.05, .queue = 0.4}, 15);
  EXPECT_EQ(history.cause(), "cpu_contention");
  EXPECT_EQ(history.opened(), "");
  const std::vector<Evidence>& evidence = history.verdicts().at(0).evidence;
  EXPECT_EQ(evidence.back().metric, "cpu_wait");
  EXPECT_NEAR(evidence.back().value.value(), 40, 8);
  EXPECT_NEAR(evidence.back().expected.value(), 0, 3);
  // 256 kept steps reach back 37 s only; it opens all the same.
  history.Play({.compute = 0.05, .queue = 0.4}, 40);
  EXPECT_EQ(history.opened(), "");
  history.Play({.compute = 0.05, .queue = 0.4}, 15);
  EXPECT_EQ(history.opened(), "cpu_contention");
}

TEST(SlowCauseTest, WaitThatPassesIsForgotten) {
  History history({2, 4});
  for (int i = 0; i < 6; ++i) {
    history.Play({.queue = 0.5}, 12);
    history.Play({}, 25);
    EXPECT_THAT(history.verdicts(), IsEmpty());
  }
  EXPECT_EQ(history.opened(), "");
}

TEST(SlowCauseTest, SleepIsNoWaitForTheCpu) {
  History history({3, 5, true, 0.03, 160});
  history.sim().job().ranks.at(Rank(kSlow)).state.process.run_state = 'R';
  history.Play({.sleep = 0.6}, 38);
  EXPECT_EQ(history.cause(), "cause_not_found");
}

// Where the kernel counts the wait for a CPU, a look at the slow stretch must say there was none.
TEST(SlowCauseTest, WithoutALookAtTheSlowStretchNothingIsProven) {
  History history({2, 6, true, 0.03, 100});
  history.sim().look_ms = 1e9;
  history.Play({.compute = 0.3}, 20);
  EXPECT_EQ(history.cause(), "compute_slow");
  EXPECT_EQ(history.opened(), "");
}

TEST(SlowCauseTest, RanksThatSpinAreOnlySuspected) {
  History history({2, 8, false, 0.03, 100});
  history.Play({.compute = 0.3}, 20);
  Job job = history.sim().job();
  for (auto& [rank, record] : job.ranks) {
    for (RankStep& step : record.steps) step.cpu_ns = step.duration_ns;
  }
  const auto verdicts = DetectFailSlow(job, history.sim().now_unix_ns());
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].cause, "compute_slow");
  EXPECT_FALSE(verdicts[0].conclusive);
  EXPECT_EQ(verdicts[0].open_after_unix_ns, 0u);
}

}  // namespace
}  // namespace flare::diag
