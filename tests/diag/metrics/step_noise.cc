// SPDX-License-Identifier: Apache-2.0
#include "tests/diag/metrics/step_noise.h"

#include <cmath>
#include <utility>

namespace flare::diag {
namespace {

using Series = std::vector<double>;

double Normal(Random* random) { return std::normal_distribution<double>()(*random); }
double Uniform(Random* random) { return std::uniform_real_distribution<double>()(*random); }

// Student's t with two degrees of freedom: its variance does not exist.
Series HeavyTail(Random* random, size_t count) {
  std::student_t_distribution<double> student(2);
  Series values(count);
  for (double& value : values) value = 1 + 0.05 * std::fabs(student(*random));
  return values;
}

Series TwoKinds(Random* random, size_t count) {
  Series values(count);
  for (double& value : values) {
    value = (Uniform(random) < 0.2 ? 1.3 : 1) * std::exp(0.01 * Normal(random));
  }
  return values;
}

// First order autoregressive: remembers for 1 / (1 - keep) steps.
auto Remembering(double sigma, double keep) {
  return [=](Random* random, size_t count) {
    Series values(count);
    double state = Normal(random);
    for (double& value : values) {
      value = std::exp(sigma * state);
      state = keep * state + std::sqrt(1 - keep * keep) * Normal(random);
    }
    return values;
  };
}

// Evaluation or checkpoints: `length` long steps in each `period`.
auto Periodic(size_t period, size_t length) {
  return [=](Random* random, size_t count) {
    Series values(count);
    const auto offset = static_cast<size_t>(Uniform(random) * static_cast<double>(period));
    for (size_t i = 0; i < count; ++i) {
      values[i] = ((i + offset) % period < length ? 1.5 : 1) * std::exp(0.02 * Normal(random));
    }
    return values;
  };
}

Series Drift(Random* random, size_t count) {
  Series values(count);
  for (size_t i = 0; i < count; ++i) {
    const double way = static_cast<double>(i) / static_cast<double>(count);
    values[i] = (1 + 0.2 * way) * std::exp(0.01 * Normal(random));
  }
  return values;
}

Series SlowStart(Random* random, size_t count) {
  Series values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = (1 + 5 * std::exp(-static_cast<double>(i) / 10)) * std::exp(0.02 * Normal(random));
  }
  return values;
}

// 1/f noise: processes that remember for 1, 2, 4, ... 2048 steps, equally strong.
auto Pink(double sigma) {
  return [=](Random* random, size_t count) {
    constexpr int kOctaves = 12;
    double states[kOctaves];
    for (double& state : states) state = Normal(random);
    Series values(count);
    for (double& value : values) {
      double sum = 0;
      for (int k = 0; k < kOctaves; ++k) {
        const double keep = std::exp(-1.0 / (1 << k));
        states[k] = keep * states[k] + std::sqrt(1 - keep * keep) * Normal(random);
        sum += states[k];
      }
      value = std::exp(sigma * sum / std::sqrt(kOctaves));
    }
    return values;
  };
}

Series Walk(Random* random, size_t count) {
  Series values(count);
  double place = 0;
  for (double& value : values) {
    place += 0.003 * Normal(random);
    value = std::exp(place + 0.01 * Normal(random));
  }
  return values;
}

// Two levels 20 % apart, each kept for 33 steps on average: every change up is a real rise.
Series Regimes(Random* random, size_t count) {
  Series values(count);
  bool high = Uniform(random) < 0.5;
  for (double& value : values) {
    if (Uniform(random) < 0.03) high = !high;
    value = (high ? 1.2 : 1) * std::exp(0.01 * Normal(random));
  }
  return values;
}

auto Quiet(double sigma) {
  return [=](Random* random, size_t count) { return QuietSteps(random, count, sigma); };
}

}  // namespace

std::vector<double> QuietSteps(Random* random, size_t count, double sigma) {
  Series values(count);
  for (double& value : values) value = std::exp(sigma * Normal(random));
  return values;
}

std::vector<double> Raised(std::vector<double> values, size_t begin, double ratio) {
  for (size_t i = begin; i < values.size(); ++i) values[i] *= ratio;
  return values;
}

const std::vector<NoiseModel>& NoiseModels() {
  static const std::vector<NoiseModel> models = {
      {"independent, 1 %", Quiet(0.01), NoiseModel::kNone},
      {"independent, 5 %", Quiet(0.05), NoiseModel::kNone},
      {"independent, 20 %", Quiet(0.2), NoiseModel::kNone},
      {"independent, Student t(2)", HeavyTail, NoiseModel::kNone},
      {"one step in five 30 % longer", TwoKinds, NoiseModel::kNone},
      {"slow start, 60 steps", SlowStart, NoiseModel::kNone},
      {"1 long step in 10", Periodic(10, 1), NoiseModel::kShort},
      {"10 long steps in 50", Periodic(50, 10), NoiseModel::kShort},
      {"drift of 20 %", Drift, NoiseModel::kShort},
      {"5 %, remembers 2 steps", Remembering(0.05, 0.5), NoiseModel::kShort},
      {"5 %, remembers 10 steps", Remembering(0.05, 0.9), NoiseModel::kShort},
      {"5 %, remembers 33 steps", Remembering(0.05, 0.97), NoiseModel::kLong},
      {"5 %, remembers 100 steps", Remembering(0.05, 0.99), NoiseModel::kLong},
      {"1/f noise, 2 %", Pink(0.02), NoiseModel::kLong},
      {"1/f noise, 5 %", Pink(0.05), NoiseModel::kLong},
      {"random walk, 0.3 % a step", Walk, NoiseModel::kLong},
      {"two levels 20 % apart", Regimes, NoiseModel::kSwitches},
  };
  return models;
}

}  // namespace flare::diag
