// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "diag/detect/fail_slow.h"
#include "tests/diag/detect/step_simulator.h"

// Rates over many random jobs. FLARE_TEST_HISTORIES sets how many healthy ones are played (default
// 2,000); the seed is the number of the history.
namespace flare::diag {
namespace {

int Histories() {
  const char* text = std::getenv("FLARE_TEST_HISTORIES");
  return text == nullptr ? 2000 : std::max(1, std::atoi(text));
}

// Healthy, in one of many ways. Every rank is treated alike unless it says otherwise.
class HealthyJob {
 public:
  explicit HealthyJob(StepSimulator* sim) : sim_(sim), ranks_(sim->job().world_size) {
    auto& random = sim->random();
    kind_ = std::uniform_int_distribution<int>(0, 8)(random);
    base_ms_ =
        std::exp(std::uniform_real_distribution<double>(std::log(20), std::log(400))(random));
    jitter_ = std::uniform_real_distribution<double>(0.01, 0.12)(random);
    odd_rank_ = random() % ranks_;
    cores_ = 1 + static_cast<uint32_t>(random() % std::max(1u, ranks_ - 1));
    uneven_ = std::uniform_real_distribution<double>(0.2, 0.6)(random);
    core_.resize(ranks_);
  }

  SimulatedStep operator()(uint32_t rank, uint64_t step, double now_s) {
    auto& random = sim_->random();
    SimulatedStep work;
    work.compute_ms = base_ms_ * std::exp(std::normal_distribution<double>(0, jitter_)(random));
    const double u = std::uniform_real_distribution<double>(0, 1)(random);
    switch (kind_) {
      case 0:
        break;
      case 1:  // heavy tails
        if (u < 0.05) work.wait_ms = base_ms_ * 0.3 * std::pow(u / 0.05, -0.7);
        break;
      case 2:  // uneven lengths
        work.compute_ms *= std::exp(std::normal_distribution<double>(0, uneven_)(random));
        break;
      case 3:  // more ranks than cores; who shares a core with whom changes now and then
        if (rank == 0 && now_s >= reshuffle_s_) {
          for (uint32_t& core : core_) core = random() % cores_;
          reshuffle_s_ = now_s + std::exponential_distribution<double>(1.0)(random);
        }
        work.queue_ms =
            work.compute_ms *
            (static_cast<double>(std::count(core_.begin(), core_.end(), core_[rank])) - 1);
        break;
      case 4:  // one rank has a few percent more to do: logging, the last pipeline stage
        if (rank == odd_rank_) work.compute_ms *= 1.05;
        break;
      case 5:  // evaluation or checkpoint on one rank
        if (rank == odd_rank_ && step % 20 == 0) work.compute_ms += 20 * base_ms_;
        break;
      case 6:  // stragglers that take turns
        if (rank == step % ranks_) work.compute_ms *= 1.4;
        break;
      case 7:  // stragglers that take longer turns
        if (rank == step / 6 % ranks_) work.compute_ms *= 1.4;
        break;
      case 8:  // slow data now and then, on any rank
        work.data_ms = u < 0.2 ? base_ms_ * 0.8 : 1;
        break;
    }
    return work;
  }

  int kind() const { return kind_; }

 private:
  StepSimulator* sim_;
  uint32_t ranks_;
  int kind_ = 0;
  double base_ms_ = 0, jitter_ = 0, uneven_ = 0;
  uint32_t odd_rank_ = 0, cores_ = 1;
  std::vector<uint32_t> core_;
  double reshuffle_s_ = 0;
};

TEST(FailSlowRandomTest, HealthyJobsAreNeverAccused) {
  int alarms = 0, looks = 0;
  for (int seed = 0; seed < Histories(); ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    StepSimulator sim(2 + random() % 7, static_cast<uint32_t>(seed));
    HealthyJob job(&sim);
    for (int step = 0; step < 200; ++step) {
      sim.Step([&](uint32_t r, uint64_t s, double now) { return job(r, s, now); });
      if (step % 12 != 11) continue;
      ++looks;
      for (const Verdict& v : DetectFailSlow(sim.job(), sim.now_unix_ns())) {
        // True as long as it lasts: this rank shares its core. It passes, so it must not be open.
        if (job.kind() == 3 && v.cause == "cpu_contention" && !v.conclusive) continue;
        ++alarms;
        ADD_FAILURE() << "seed " << seed << " kind " << job.kind() << " step " << step << ": "
                      << (v.conclusive ? "conclusive " : "suspected ") << v.summary;
      }
      if (alarms > 20) return;
    }
  }
  std::printf("healthy histories: %d, looks: %d, alarms: %d\n", Histories(), looks, alarms);
}

TEST(FailSlowRandomTest, OneSlowRankIsFoundInTime) {
  const int jobs = std::max(50, Histories() / 5);
  int right = 0, wrong = 0, cause_right = 0;
  double worst_s = 0, sum_s = 0;
  for (int seed = 0; seed < jobs; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed) + 1'000'000);
    const uint32_t ranks = 2 + random() % 7;
    const uint32_t slow = random() % ranks;
    StepSimulator sim(ranks, static_cast<uint32_t>(seed) + 1'000'000);
    auto& r = sim.random();
    const double base_ms = std::uniform_real_distribution<double>(100, 230)(r);
    const double jitter = std::uniform_real_distribution<double>(0.01, 0.08)(r);
    const int healthy = static_cast<int>(20 + r() % 100);
    double struck_s = -1;
    const auto plan = [&](uint32_t rank, uint64_t step, double) {
      const bool faulty = rank == slow && step >= static_cast<uint64_t>(healthy);
      return SimulatedStep{
          base_ms * (faulty ? 1.3 : 1) * std::exp(std::normal_distribution<double>(0, jitter)(r)),
          0, 0};
    };
    for (int i = 0; i < healthy; ++i) sim.Step(plan);
    struck_s = sim.now_s();
    bool found = false;
    while (!found && sim.now_s() < struck_s + 10) {
      sim.Step(plan);
      for (const Verdict& v : DetectFailSlow(sim.job(), sim.now_unix_ns())) {
        found = true;
        const bool culprit = v.ranks == std::vector<Rank>{Rank(slow)};
        right += culprit;
        wrong += !culprit;
        cause_right += v.cause == "compute_slow";
      }
    }
    if (found) {
      worst_s = std::max(worst_s, sim.now_s() - struck_s);
      sum_s += sim.now_s() - struck_s;
    }
  }
  std::printf(
      "slow jobs: %d, right culprit: %d, wrong: %d, right cause: %d, mean %.1f s, worst %.1f s\n",
      jobs, right, wrong, cause_right, sum_s / std::max(1, right + wrong), worst_s);
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(right, jobs * 99 / 100);
  EXPECT_GE(cause_right, jobs * 99 / 100);
}

}  // namespace
}  // namespace flare::diag
