// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/slow_shift.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "diag/detect/detector_list.h"
#include "tests/diag/detect/step_simulator.h"

namespace flare::diag {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kSecondNs = 1'000'000'000;

double Around1(StepSimulator* sim, double spread) {
  std::normal_distribution<double> normal(0, spread);
  return std::exp(normal(sim->random()));
}

std::vector<Verdict> Detect(const StepSimulator& sim) {
  return DetectSlowShift(sim.job(), sim.now_unix_ns());
}

// Steps of a second; all ranks take `slow` times as long from step 120 on.
void Play(StepSimulator* sim, int steps, double slow, int from = 120) {
  for (int i = 0; i < steps; ++i) {
    const double factor = (i < from ? 1 : slow) * Around1(sim, 0.01);
    sim->Step([&](uint32_t, uint64_t, double) {
      return SimulatedStep{1000 * factor * Around1(sim, 0.005), 0, 0};
    });
  }
}

TEST(SlowShiftTest, JobThatBecomesSlowerIsSaidSo) {
  StepSimulator sim(4, 1);
  Play(&sim, 200, 1.1);
  const std::vector<Verdict> verdicts = Detect(sim);
  ASSERT_EQ(verdicts.size(), 1u);
  const Verdict& v = verdicts[0];
  EXPECT_EQ(v.finding_class, "fail_slow");
  EXPECT_EQ(v.cause, "cause_not_found");
  EXPECT_THAT(v.ranks, IsEmpty());
  EXPECT_TRUE(v.conclusive);
  EXPECT_THAT(v.summary, HasSubstr("Since step 120 the job takes"));
  EXPECT_NEAR(v.lost_share, 0.1 / 1.1, 0.01);
  EXPECT_NEAR(static_cast<double>(sim.now_unix_ns() - v.since_unix_ns), 80 * 1.1e9, 3e9);
}

TEST(SlowShiftTest, PassingBurdenOfTheMachineIsWaitedFor) {
  StepSimulator sim(4, 2);
  Play(&sim, 120 + 40, 1.3);  // 52 s
  EXPECT_THAT(Detect(sim), IsEmpty());
  StepSimulator later(4, 2);
  Play(&later, 120 + 60, 1.3);
  EXPECT_EQ(Detect(later).size(), 1u);
}

TEST(SlowShiftTest, StaysSilentOnHealthyJobs) {
  struct Case {
    const char* what;
    StepSimulator::Plan plan;
  };
  StepSimulator* sim = nullptr;
  const Case cases[] = {
      {"noise",
       [&](uint32_t, uint64_t, double) {
         return SimulatedStep{1000 * Around1(sim, 0.2), 0, 0};
       }},
      {"evaluation each 50 steps",
       [&](uint32_t, uint64_t step, double) {
         return SimulatedStep{1000 * Around1(sim, 0.02), step % 50 == 49 ? 20'000.0 : 0, 0};
       }},
      {"evaluation in ten steps of 60",
       [&](uint32_t, uint64_t step, double) {
         return SimulatedStep{(step % 60 >= 50 ? 1800 : 1000) * Around1(sim, 0.02), 0, 0};
       }},
      {"checkpoint of one rank each 30 steps",
       [&](uint32_t rank, uint64_t step, double) {
         return SimulatedStep{1000 * Around1(sim, 0.02), rank == 0 && step % 30 == 0 ? 8000.0 : 0,
                              0};
       }},
      {"drift",
       [&](uint32_t, uint64_t step, double) {
         return SimulatedStep{1000 * (1 + 0.001 * static_cast<double>(step)) * Around1(sim, 0.01),
                              0, 0};
       }},
      {"slow start",
       [&](uint32_t, uint64_t step, double) {
         return SimulatedStep{(step < 30 ? 3000 : 1000) * Around1(sim, 0.02), 0, 0};
       }},
      {"faster and faster",
       [&](uint32_t, uint64_t step, double) {
         return SimulatedStep{(step < 100 ? 1500 : 1000) * Around1(sim, 0.02), 0, 0};
       }},
  };
  for (const Case& c : cases) {
    StepSimulator simulator(4, 3);
    sim = &simulator;
    for (int i = 0; i < 300; ++i) {
      simulator.Step(c.plan);
      if (i % 3 != 0) continue;
      for (const Verdict& v : Detect(simulator)) ADD_FAILURE() << c.what << ": " << v.summary;
    }
  }
}

TEST(SlowShiftTest, OtherWorkInAStepIsNoFault) {
  StepSimulator sim(4, 4);
  Play(&sim, 200, 1.5);
  for (auto& [rank, record] : sim.job().ranks) {
    for (RankStep& step : record.steps) {
      if (step.step.value < 120) continue;
      step.communicators[0].count *= 2;  // twice the micro-batches
    }
  }
  EXPECT_THAT(Detect(sim), IsEmpty());
}

TEST(SlowShiftTest, RankThatIsToBlameIsLeftToItsDetector) {
  StepSimulator sim(4, 5);
  for (int i = 0; i < 250; ++i) {
    sim.Step([&](uint32_t rank, uint64_t step, double) {
      const double slow = rank == 2 && step >= 150 ? 1.3 : 1;
      return SimulatedStep{1000 * slow * Around1(&sim, 0.02), 0, 0};
    });
  }
  EXPECT_THAT(Detect(sim), IsEmpty());
  EXPECT_THAT(RunDetectors(sim.job(), sim.now_unix_ns()),
              ElementsAre(Field(&Verdict::ranks, ElementsAre(Rank(2)))));
}

TEST(SlowShiftTest, WaitingForDataNamesItself) {
  StepSimulator sim(4, 6);
  for (int i = 0; i < 200; ++i) {
    sim.Step([&](uint32_t, uint64_t step, double) {
      return SimulatedStep{1000 * Around1(&sim, 0.01), 0, step < 120 ? 20.0 : 220.0};
    });
  }
  const std::vector<Verdict> verdicts = Detect(sim);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].cause, "data_worker_slow");
  EXPECT_EQ(verdicts[0].team, "algorithm");
}

TEST(SlowShiftTest, WhatAHostSaysAtThatTimeNamesTheCause) {
  StepSimulator sim(4, 7);
  Play(&sim, 200, 1.1);
  HostSignal signal;
  signal.kind = SignalKind::kGpuClock;
  signal.code = 0;  // thermal
  signal.value = 900;
  signal.node = "node3";
  signal.text = "GPU 2 runs at 900 MHz: thermal slowdown";
  signal.at_unix_ns = sim.now_unix_ns() - 80 * kSecondNs;
  sim.job().signals = {signal};
  const std::vector<Verdict> verdicts = Detect(sim);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].cause, "gpu_clock");
  EXPECT_THAT(verdicts[0].nodes, ElementsAre("node3"));
  EXPECT_THAT(verdicts[0].summary, HasSubstr("node node3 said"));
  sim.job().signals[0].at_unix_ns -= 3600 * kSecondNs;
  EXPECT_EQ(Detect(sim)[0].cause, "cause_not_found");
}

TEST(SlowShiftTest, JobsThatEndedOrStandStillAreLeftAlone) {
  StepSimulator sim(4, 8);
  Play(&sim, 200, 1.2);
  EXPECT_THAT(DetectSlowShift(sim.job(), sim.now_unix_ns() + 60 * kSecondNs), IsEmpty());
  sim.job().ended = true;
  EXPECT_THAT(Detect(sim), IsEmpty());
  EXPECT_THAT(DetectSlowShift(Job(), sim.now_unix_ns()), IsEmpty());
}

}  // namespace
}  // namespace flare::diag
