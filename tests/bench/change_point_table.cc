// SPDX-License-Identifier: Apache-2.0
// Prints how often rises of step times are seen where there are none, and how many steps it takes
// to see one: the tables of docs/accuracy.md.
//
//   build/bench/change_point_table [series for each figure, 2000]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "diag/metrics/change_point.h"
#include "tests/diag/metrics/step_noise.h"

namespace flare::diag {
namespace {

constexpr double kWeak = 1e-6, kStrict = 1e-9;  // SlowShiftSettings

bool Alarm(const std::vector<double>& values, double worst) {
  const auto rise = FindLastingRise(values);
  return rise && rise->false_alarm <= worst && rise->abruptness >= 0.5 &&
         rise->size() >= 2 * rise->wander;
}

void PrintFalseAlarms(int series) {
  std::printf("alarms per 1000 series without a change (suspected at 1e-6 / open at 1e-9)\n");
  std::printf("%-30s %14s %14s %14s\n", "noise", "64 steps", "256 steps", "1000 steps");
  for (const NoiseModel& model : NoiseModels()) {
    std::printf("%-30s", model.name);
    for (size_t steps : {64u, 256u, 1000u}) {
      Random random(7);
      int weak = 0, strict = 0;
      for (int i = 0; i < series; ++i) {
        const std::vector<double> values = model.make(&random, steps);
        const bool alarm = Alarm(values, kWeak);
        weak += alarm;
        strict += alarm && Alarm(values, kStrict);
      }
      std::printf("   %5.2f / %4.2f", 1e3 * weak / series, 1e3 * strict / series);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

// Steps after the change until nine of ten series show it, after 200 steps without.
size_t StepsNeeded(double sigma, double ratio, double worst, int series) {
  constexpr size_t kMost = 2000;
  for (size_t after = 8; after <= kMost; after = std::max(after + 1, after * 9 / 8)) {
    Random random(9);
    int found = 0;
    for (int i = 0; i < series; ++i) {
      found += Alarm(Raised(QuietSteps(&random, 200 + after, sigma), 200, ratio), worst);
    }
    if (found * 10 >= series * 9) return after;
  }
  return 0;
}

void PrintPower(int series) {
  std::printf("\nsteps until 9 of 10 rises are suspected / open, after 200 steps before\n%-10s",
              "spread");
  for (double ratio : {1.03, 1.04, 1.05, 1.1, 1.2, 1.5}) std::printf(" %8.0f %%", 100 * (ratio - 1));
  std::printf("\n");
  for (double sigma : {0.002, 0.01, 0.02, 0.05, 0.1}) {
    std::printf("%-6.1f %%  ", 100 * sigma);
    for (double ratio : {1.03, 1.04, 1.05, 1.1, 1.2, 1.5}) {
      const size_t weak = StepsNeeded(sigma, ratio, kWeak, series);
      const size_t strict = StepsNeeded(sigma, ratio, kStrict, series);
      std::printf("  %4zu/%-4zu", weak, strict);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

void PrintCost() {
  std::printf("\ntime of one look\n");
  for (size_t steps : {256u, 1000u, 10'000u, 100'000u}) {
    Random random(1);
    const std::vector<double> values = Raised(QuietSteps(&random, steps, 0.02), steps / 2, 1.05);
    const auto begin = std::chrono::steady_clock::now();
    const bool lasting = FindLastingRise(values).has_value();
    const auto middle = std::chrono::steady_clock::now();
    const size_t rises = FindRises(values, kWeak).size();
    const auto end = std::chrono::steady_clock::now();
    using Ms = std::chrono::duration<double, std::milli>;
    std::printf("%7zu steps: lasting rise %9.3f ms, all rises %9.3f ms (%d, %zu found)\n", steps,
                Ms(middle - begin).count(), Ms(end - middle).count(), lasting, rises);
  }
}

}  // namespace
}  // namespace flare::diag

int main(int count, char** arguments) {
  const int series = count > 1 ? std::max(1, std::atoi(arguments[1])) : 2000;
  flare::diag::PrintCost();
  flare::diag::PrintPower(std::max(20, series / 20));
  flare::diag::PrintFalseAlarms(series);
}
