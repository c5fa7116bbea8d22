// SPDX-License-Identifier: Apache-2.0
#include "tests/diag/detect/step_simulator.h"

#include <algorithm>

namespace flare::diag {
namespace {

constexpr uint64_t kEpoch = 1'800'000'000'000'000'000;
constexpr CommId kGroup{1};

uint64_t Ns(double ms) { return static_cast<uint64_t>(std::max(ms, 0.0) * 1e6); }

}  // namespace

StepSimulator::StepSimulator(uint32_t ranks, uint32_t seed)
    : random_(seed), start_ms_(ranks, 0.0), queued_ms_(ranks, 1.0) {
  job_.id = "simulated";
  job_.world_size = ranks;
  for (uint32_t r = 0; r < ranks; ++r) {
    RankRecord& record = job_.ranks[Rank(r)];
    record.rank = Rank(r);
    record.state.process.life = Life::kRunning;
    record.state.process.run_state = 'S';
    CommunicatorState state;
    state.communicator = kGroup;
    state.group_rank = r;
    state.group_size = ranks;
    record.state.communicators.push_back(state);
  }
}

uint64_t StepSimulator::now_unix_ns() const { return kEpoch + Ns(now_ms_); }

void StepSimulator::Step(const Plan& plan) {
  const auto ranks = static_cast<uint32_t>(start_ms_.size());
  std::normal_distribution<double> noise(0, 1);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<SimulatedStep> work(ranks);
  std::vector<std::vector<double>> launch(ranks, std::vector<double>(buckets));
  std::vector<double> end(buckets, 0), computed(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    work[r] = plan(r, steps_, now_s());
    const double wall = work[r].compute_ms + work[r].wait_ms + work[r].queue_ms;
    queued_ms_[r] += work[r].queue_ms;
    const double begin = start_ms_[r] + work[r].data_ms;
    computed[r] = begin + wall;
    for (uint32_t b = 0; b < buckets; ++b) {
      launch[r][b] = begin + wall * (0.4 + 0.6 * (b + 1) / buckets);
      end[b] = std::max(end[b], launch[r][b]);
    }
  }
  for (uint32_t r = 0; r < ranks; ++r) {
    RankRecord& record = job_.ranks.at(Rank(r));
    RankStep step;
    step.step = StepId(steps_);
    step.start_unix_ns = kEpoch + Ns(start_ms_[r]);
    CommunicatorStep comm;
    comm.communicator = kGroup;
    comm.first_sequence = steps_ * buckets;
    comm.count = buckets;
    double covered_to = 0, communication = 0, finish = computed[r];
    for (uint32_t b = 0; b < buckets; ++b) {
      const double done = end[b] + transfer_ms * (1 + 0.3 * uniform(random_));
      comm.duration_us.push_back(static_cast<uint32_t>(std::max(1.0, 1e3 * (done - launch[r][b]))));
      communication += std::max(0.0, done - std::max(launch[r][b], covered_to));
      covered_to = std::max(covered_to, done);
      finish = std::max(finish, done);
    }
    step.duration_ns = Ns(finish - start_ms_[r]);
    step.communication_ns = Ns(communication);
    step.cpu_ns = Ns(work[r].compute_ms * (1 + cpu_noise * noise(random_)) + 0.5);
    step.phases.push_back({EventKind::kDataLoad, "", 1, Ns(work[r].data_ms), Ns(work[r].data_ms)});
    step.communicators.push_back(std::move(comm));
    record.steps.push_back(std::move(step));
    if (record.steps.size() > kKeptSteps) record.steps.pop_front();
    start_ms_[r] = finish;
    now_ms_ = std::max(now_ms_, finish);
  }
  ++steps_;
  for (auto& [rank, record] : job_.ranks) {
    record.state.steps = steps_;
    record.state.last_progress_unix_ns = now_unix_ns();
  }
  if (now_ms_ >= next_look_ms_) Look();
}

void StepSimulator::Look() {
  next_look_ms_ = now_ms_ + look_ms;
  for (auto& [rank, record] : job_.ranks) {
    record.previous_at_unix_ns = record.state.at_unix_ns;
    record.previous_run_delay_ns = record.state.process.run_delay_ns;
    record.state.at_unix_ns = now_unix_ns();
    record.state.process.run_delay_ns = counts_queue ? Ns(queued_ms_[rank.value]) : 0;
  }
}

}  // namespace flare::diag
