// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/slow_cause.h"

#include <algorithm>
#include <vector>

#include "diag/metrics/cpu_wait.h"
#include "diag/metrics/statistics.h"

namespace flare::diag {
namespace {

constexpr double kExplained = 0.5;  // share of the lag that names or proves its cause
constexpr double kSuggested = 0.25;
constexpr double kLeastCpuExcess = 0.08;   // of the others' CPU time; less is noise
constexpr double kProvenCpuExcess = 0.20;  // a shared core or cache does not do this much
constexpr double kContested = 0.25;        // share of the lag; CPU time proves nothing beside it
constexpr double kSeveralThreads = 1.5;    // CPU time per time computing
constexpr uint64_t kOldLookNs = 15'000'000'000;

// Looks come every few seconds, so they seldom fit the window: a look counts when most of it lies
// in the slow stretch and it is not much older than the newest step.
bool FitsWindow(const CpuWait& wait, const SlowWindow& window) {
  const uint64_t middle = wait.from_unix_ns + (wait.to_unix_ns - wait.from_unix_ns) / 2;
  return middle >= window.since_unix_ns && wait.to_unix_ns + kOldLookNs >= window.end_unix_ns;
}

std::optional<StepCpuWait> StepCpuWaitOf(const Job& job, const SlowWindow& window) {
  std::optional<double> slow;
  std::vector<double> others;
  for (const auto& [rank, record] : job.ranks) {
    const std::optional<CpuWait> wait = CpuWaitOf(record);
    if (!wait || !FitsWindow(*wait, window)) continue;
    if (rank == window.slow) {
      slow = wait->share;
    } else {
      others.push_back(wait->share);
    }
  }
  if (!slow) return std::nullopt;
  StepCpuWait step{*slow * window.step_ns, {}};
  // What is normal here is not known from a few.
  if (2 * others.size() + 1 >= job.ranks.size()) {
    step.others_ns = Median(std::move(others)) * window.step_ns;
  }
  return step;
}

SlowCause ComputeSlow(double confidence, Certainty certainty) {
  return {"compute_slow",
          confidence,
          certainty,
          "computes longer",
          "Compare clock, temperature and other load of its node and device with the others', and "
          "whether it has more work to do (longer samples, more experts); move the rank if the "
          "hardware is slow.",
          {}};
}

SlowCause CpuContention(double confidence, Certainty certainty) {
  return {"cpu_contention",
          confidence,
          certainty,
          "waits longer for a CPU",
          "Look for other processes on its cores (pinning, containers, daemons).",
          {}};
}

// What the kernel counts of the slow rank's time beyond that of the others.
struct Account {
  double cpu_ns = 0;
  double wait_by_work_ns = 0;  // who works longer on a full machine waits longer, too
  double wait_ns = 0;          // beyond that
  double rest_ns = 0;
  double work_ns() const { return cpu_ns + wait_by_work_ns; }
  double lag_ns() const { return work_ns() + wait_ns + rest_ns; }
};

double NotBelow0(double ns) { return std::max(ns, 0.0); }

Account AccountOf(const SlowWindow& window, const std::optional<StepCpuWait>& cpu_wait) {
  Account account;
  const double slow_wait = cpu_wait ? cpu_wait->slow_ns : 0;
  const double others_wait = cpu_wait ? cpu_wait->others_ns.value_or(0) : 0;
  const double slow_rest = NotBelow0(window.slow_compute_ns - window.slow_cpu_ns - slow_wait);
  const double others_rest =
      NotBelow0(window.others_compute_ns - window.others_cpu_ns - others_wait);
  account.cpu_ns = NotBelow0(window.slow_cpu_ns - window.others_cpu_ns);
  if (cpu_wait && cpu_wait->others_ns) {
    account.wait_by_work_ns = std::min(others_wait * account.cpu_ns / window.others_cpu_ns,
                                       NotBelow0(slow_wait - others_wait));
    account.wait_ns = NotBelow0(slow_wait - others_wait - account.wait_by_work_ns);
  }
  account.rest_ns = NotBelow0(slow_rest - others_rest);
  return account;
}

bool CpuTimeProves(const SlowWindow& window, const Account& account, const ProcessState& process,
                   const std::optional<StepCpuWait>& cpu_wait) {
  // Its own wait for a CPU, not the difference: who waits himself is not seen clearly. Where the
  // kernel counts this wait, a look at the slow stretch must say that there was none.
  const bool contested =
      cpu_wait ? cpu_wait->slow_ns > kContested * account.lag_ns() : process.run_delay_ns != 0;
  const bool several_threads = window.slow_cpu_ns > kSeveralThreads * window.slow_compute_ns;
  return !contested && !several_threads && account.cpu_ns >= kExplained * account.lag_ns() &&
         account.cpu_ns >= kProvenCpuExcess * window.others_cpu_ns;
}

SlowCause OfLongerComputing(const ProcessState& process, const SlowWindow& window,
                            const std::optional<StepCpuWait>& cpu_wait) {
  if (!window.cpu_tells) {
    // The magnified excess is more than the lag, so that half of it is enough in any case.
    const double excess = window.slow_compute_ns - window.others_compute_ns;
    const bool waits = cpu_wait && cpu_wait->others_ns &&
                       cpu_wait->slow_ns - *cpu_wait->others_ns >= kExplained * excess;
    return waits ? CpuContention(0.7, Certainty::kWhenItLasts)
                 : ComputeSlow(0.6, Certainty::kSuspicion);
  }
  const Account account = AccountOf(window, cpu_wait);
  if (account.wait_ns >= kExplained * account.lag_ns() && account.wait_ns > account.work_ns()) {
    return CpuContention(0.8, Certainty::kWhenItLasts);
  }
  if (account.work_ns() >= kSuggested * account.lag_ns() &&
      account.cpu_ns >= kLeastCpuExcess * window.others_cpu_ns) {
    return CpuTimeProves(window, account, process, cpu_wait)
               ? ComputeSlow(0.9, Certainty::kProven)
               : ComputeSlow(0.6, Certainty::kSuspicion);
  }
  if (process.run_state == 'D') {
    return {"file_system_slow",
            0.7,
            Certainty::kAfterAWhile,
            "is held up longer by the file system",
            "Look at the file system that this rank reads or writes in each step.",
            {}};
  }
  // Seen runnable in one look is weak evidence: only where nothing better is known.
  if (!cpu_wait && process.run_state == 'R') return CpuContention(0.6, Certainty::kAfterAWhile);
  return {"cause_not_found",
          0.5,
          Certainty::kAfterAWhile,
          "takes longer, without using the CPU more",
          "Look at what this rank waits for outside of collectives (storage, network, locks, "
          "sleep).",
          {}};
}

SlowCause CauseOf(const Job& job, const SlowWindow& window,
                  const std::optional<StepCpuWait>& cpu_wait) {
  const double excess = window.slow_own_ns - window.others_own_ns;
  if (window.data_excess_ns >= kExplained * excess) {
    return {"data_worker_slow",
            0.9,
            Certainty::kProven,
            "waits longer for its data",
            "Look at the data workers of this rank and the storage they read; more workers or "
            "prefetching hide short delays.",
            {}};
  }
  if (window.slow_compute_ns - window.others_compute_ns < kExplained * excess) {
    return {"cause_not_found",
            0.5,
            Certainty::kAfterAWhile,
            "spends longer between collectives",
            "Compare the phases of this rank with the others in the report.",
            {}};
  }
  return OfLongerComputing(job.ranks.at(window.slow).state.process, window, cpu_wait);
}

}  // namespace

SlowCause SlowCauseOf(const Job& job, const SlowWindow& window) {
  const std::optional<StepCpuWait> cpu_wait = StepCpuWaitOf(job, window);
  SlowCause cause = CauseOf(job, window, cpu_wait);
  cause.cpu_wait = cpu_wait;
  return cause;
}

}  // namespace flare::diag
