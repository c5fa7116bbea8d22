// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/fail_slow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>

#include "tests/diag/detect/step_simulator.h"

namespace flare::diag {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Factors around 1 with this relative spread.
double Around1(StepSimulator* sim, double spread) {
  std::normal_distribution<double> normal(0, spread);
  return std::exp(normal(sim->random()));
}

std::vector<Verdict> Detect(const StepSimulator& sim) {
  return DetectFailSlow(sim.job(), sim.now_unix_ns());
}

// One rank gets slower after `healthy` steps; returns the first verdicts and the seconds it took.
struct Outcome {
  std::vector<Verdict> verdicts;
  double seconds = -1;
  size_t false_alarms = 0;  // before the fault
};

Outcome Play(StepSimulator* sim, int healthy, double limit_s, const StepSimulator::Plan& plan) {
  Outcome outcome;
  for (int i = 0; i < healthy; ++i) {
    sim->Step(plan);
    if (i % 5 == 0) outcome.false_alarms += Detect(*sim).size();
  }
  const double struck_s = sim->now_s();
  while (sim->now_s() < struck_s + limit_s) {
    sim->Step(plan);
    outcome.verdicts = Detect(*sim);
    if (!outcome.verdicts.empty()) {
      outcome.seconds = sim->now_s() - struck_s;
      break;
    }
  }
  return outcome;
}

TEST(FailSlowTest, SlowComputeIsFoundWithNumbers) {
  StepSimulator sim(4, 1);
  const Outcome outcome = Play(&sim, 100, 10, [&](uint32_t rank, uint64_t step, double) {
    const double slow = rank == 2 && step >= 100 ? 1.3 : 1;
    return SimulatedStep{100 * slow * Around1(&sim, 0.03), 0, 0};
  });
  EXPECT_EQ(outcome.false_alarms, 0u);
  ASSERT_EQ(outcome.verdicts.size(), 1u);
  const Verdict& v = outcome.verdicts[0];
  EXPECT_EQ(v.finding_class, "fail_slow");
  EXPECT_EQ(v.cause, "compute_slow");
  EXPECT_EQ(v.team, "operations");
  EXPECT_EQ(v.severity, "medium");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(2)));
  EXPECT_THAT(v.victims, ElementsAre(Rank(0), Rank(1), Rank(3)));
  EXPECT_THAT(v.summary, HasSubstr("since step "));
  EXPECT_LE(outcome.seconds, 10);
}

TEST(FailSlowTest, BecomesConclusive) {
  StepSimulator sim(2, 2);
  const auto plan = [&](uint32_t rank, uint64_t step, double) {
    const double slow = rank == 1 && step >= 60 ? 1.3 : 1;
    return SimulatedStep{100 * slow * Around1(&sim, 0.03), 0, 0};
  };
  for (int i = 0; i < 60 + 60; ++i) sim.Step(plan);
  const auto verdicts = Detect(sim);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_TRUE(verdicts[0].conclusive);
  EXPECT_NEAR(verdicts[0].lost_share, 0.22 / 2, 0.04);
}

TEST(FailSlowTest, SlowDataIsNotSlowCompute) {
  StepSimulator sim(3, 3);
  const Outcome outcome = Play(&sim, 60, 10, [&](uint32_t rank, uint64_t step, double) {
    return SimulatedStep{100 * Around1(&sim, 0.03), 0, rank == 1 && step >= 60 ? 60.0 : 2.0};
  });
  ASSERT_EQ(outcome.verdicts.size(), 1u);
  EXPECT_EQ(outcome.verdicts[0].cause, "data_worker_slow");
  EXPECT_EQ(outcome.verdicts[0].team, "algorithm");
  EXPECT_THAT(outcome.verdicts[0].ranks, ElementsAre(Rank(1)));
}

// The time passes without CPU use: not compute, and not said before it has lasted. Of a kernel that
// does not count the wait for a CPU, one look at the process is all there is.
TEST(FailSlowTest, SlowWithoutCpuIsContentionOnlyWhenSeenRunnable) {
  for (const char run_state : {'R', 'S'}) {
    StepSimulator sim(3, 4);
    sim.counts_queue = false;
    const auto plan = [&](uint32_t rank, uint64_t step, double) {
      return SimulatedStep{100 * Around1(&sim, 0.03), rank == 1 && step >= 30 ? 60.0 : 0.0, 0};
    };
    for (int i = 0; i < 30 + 150; ++i) sim.Step(plan);
    sim.job().ranks.at(Rank(1)).state.process.run_state = run_state;
    EXPECT_THAT(Detect(sim), IsEmpty()) << "24 s of it";
    for (int i = 0; i < 60; ++i) sim.Step(plan);
    const auto verdicts = Detect(sim);
    ASSERT_EQ(verdicts.size(), 1u) << run_state;
    EXPECT_EQ(verdicts[0].cause, run_state == 'R' ? "cpu_contention" : "cause_not_found");
  }
}

TEST(FailSlowTest, RankSlowFromTheStartIsFound) {
  StepSimulator sim(4, 5);
  for (int i = 0; i < 60; ++i) {
    sim.Step([&](uint32_t rank, uint64_t, double) {
      return SimulatedStep{100 * (rank == 0 ? 1.3 : 1) * Around1(&sim, 0.03), 0, 0};
    });
  }
  const auto verdicts = Detect(sim);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_THAT(verdicts[0].summary, HasSubstr("in all steps seen"));
}

TEST(FailSlowTest, TwoSlowRanksAreNotBlamedOnOne) {
  StepSimulator sim(4, 6);
  for (int i = 0; i < 120; ++i) {
    sim.Step([&](uint32_t rank, uint64_t, double) {
      return SimulatedStep{100 * (rank >= 2 ? 1.3 : 1) * Around1(&sim, 0.03), 0, 0};
    });
  }
  EXPECT_THAT(Detect(sim), IsEmpty());
}

TEST(FailSlowTest, ManyCollectivesPerStepAreJudgedByTotals) {
  StepSimulator sim(3, 7);
  sim.buckets = 8;
  for (int i = 0; i < 80; ++i) {
    sim.Step([&](uint32_t rank, uint64_t, double) {
      return SimulatedStep{100 * (rank == 1 ? 1.3 : 1) * Around1(&sim, 0.03), 0, 0};
    });
  }
  for (auto& [rank, record] : sim.job().ranks) {
    for (RankStep& step : record.steps) step.communicators[0].duration_us.clear();
  }
  const auto verdicts = Detect(sim);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_THAT(verdicts[0].ranks, ElementsAre(Rank(1)));
}

TEST(FailSlowTest, JobThatNoLongerStepsIsNotJudged) {
  StepSimulator sim(2, 8);
  for (int i = 0; i < 80; ++i) {
    sim.Step([&](uint32_t rank, uint64_t, double) {
      return SimulatedStep{100.0 * (rank == 1 ? 1.5 : 1), 0, 0};
    });
  }
  EXPECT_FALSE(Detect(sim).empty());
  EXPECT_THAT(DetectFailSlow(sim.job(), sim.now_unix_ns() + 11'000'000'000), IsEmpty());
}

TEST(FailSlowTest, PseudoStepsAreNotCompared) {
  StepSimulator sim(2, 9);
  for (int i = 0; i < 80; ++i) {
    sim.Step([&](uint32_t rank, uint64_t, double) {
      return SimulatedStep{100.0 * (rank == 1 ? 1.5 : 1), 0, 0};
    });
  }
  for (auto& [rank, record] : sim.job().ranks) {
    for (RankStep& step : record.steps) step.step = StepId(kFirstPseudoStep + step.step.value);
  }
  EXPECT_THAT(Detect(sim), IsEmpty());
}

}  // namespace
}  // namespace flare::diag
