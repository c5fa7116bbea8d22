// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "diag/model/job.h"

// Makes the folded steps of a data-parallel job by playing it: each rank loads data, computes, and
// launches gradient buckets on the way, which end for all when the last rank has come. What a rank
// reports (durations, communication, CPU time) follows from the times; nothing is made up twice.
namespace flare::diag {

struct SimulatedStep {
  double compute_ms = 100;  // CPU work
  double wait_ms = 0;       // asleep
  double data_ms = 0;
  double queue_ms = 0;  // ready to run, but others have the CPU
};

class StepSimulator {
 public:
  // What rank r does in a step; called once per rank and step, in order.
  using Plan = std::function<SimulatedStep(uint32_t rank, uint64_t step, double now_s)>;

  StepSimulator(uint32_t ranks, uint32_t seed);

  std::mt19937& random() { return random_; }
  // Plays one step of all ranks.
  void Step(const Plan& plan);
  const Job& job() const { return job_; }
  Job& job() { return job_; }
  uint64_t now_unix_ns() const;
  double now_s() const { return now_ms_ / 1e3; }

  double transfer_ms = 1;
  double cpu_noise = 0.01;
  uint32_t buckets = 4;
  bool counts_queue = true;  // the kernel tells how long a thread was ready and had no CPU
  double look_ms = 5000;     // between two looks of the daemon at the processes

 private:
  void Look();

  std::mt19937 random_;
  Job job_;
  double now_ms_ = 0;
  uint64_t steps_ = 0;
  std::vector<double> start_ms_;
  std::vector<double> queued_ms_;  // so far
  double next_look_ms_ = 0;
};

}  // namespace flare::diag
