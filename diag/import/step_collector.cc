// SPDX-License-Identifier: Apache-2.0
#include "diag/import/step_collector.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

constexpr double kLongestSeconds = 366.0 * 86'400;
constexpr double kMostWork = 1e30;
constexpr uint64_t kMostStep = uint64_t{1} << 61;
constexpr uint64_t kOriginNs = 1'000'000'000;  // of times that are not told: zero means "not told"
constexpr double kMostTell = 0.9;  // share of readings that must tell their work in a unit

bool Sane(double value, double most) { return std::isfinite(value) && value >= 0 && value <= most; }

bool Sane(const StepReading& r) {
  if (!Sane(r.seconds, kLongestSeconds) || !Sane(r.rate, kMostWork)) return false;
  if (r.seconds == 0 && r.rate == 0) return false;
  return r.step < kMostStep;
}

// Two neighbours as one: means of both, told at the end of the later one.
StepReading Mean(const StepReading& a, const StepReading& b) {
  StepReading mean = b;
  const auto both = [](double x, double y) { return x > 0 && y > 0 ? (x + y) / 2 : 0; };
  mean.seconds = both(a.seconds, b.seconds);
  mean.rate = a.rate > 0 && b.rate > 0 ? 2 / (1 / a.rate + 1 / b.rate) : 0;
  mean.samples = both(a.samples, b.samples);
  mean.tokens = both(a.tokens, b.tokens);
  mean.flop = both(a.flop, b.flop);
  return mean;
}

template <typename List>
void Halve(List* list) {
  size_t kept = 0;
  for (size_t i = 0; i + 1 < list->size(); i += 2)
    (*list)[kept++] = Mean((*list)[i], (*list)[i + 1]);
  list->resize(kept);
}

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Where only rates are told: the work of a step is their median times the median time between
// steps, so that 1 / rate becomes a time. False without times.
template <typename Run>
bool TimesFromRates(Run* run) {
  std::vector<double> work;
  for (size_t i = 1; i < run->size(); ++i) {
    const StepReading &a = (*run)[i - 1], &b = (*run)[i];
    if (b.rate <= 0 || a.at_unix_ns == 0 || b.at_unix_ns <= a.at_unix_ns || b.step <= a.step)
      continue;
    work.push_back(b.rate * static_cast<double>(b.at_unix_ns - a.at_unix_ns) * 1e-9 /
                   static_cast<double>(b.step - a.step));
  }
  const double of_step = MedianOf(std::move(work));
  if (of_step <= 0) return false;
  for (StepReading& reading : *run) {
    if (reading.seconds == 0) reading.seconds = of_step / reading.rate;
  }
  return true;
}

// The unit in which nearly all steps tell their work; what says most comes first.
struct Unit {
  const char* name;
  double StepReading::*work;
};
constexpr Unit kUnits[] = {{"FLOP", &StepReading::flop},
                           {"tokens", &StepReading::tokens},
                           {"samples", &StepReading::samples}};

template <typename Run>
const Unit* UnitOf(const Run& run) {
  for (const Unit& unit : kUnits) {
    const auto told = std::count_if(run.begin(), run.end(), [&](const StepReading& reading) {
      return Sane(reading.*unit.work, kMostWork) && reading.*unit.work > 0;
    });
    if (static_cast<double>(told) >= kMostTell * static_cast<double>(run.size())) return &unit;
  }
  return nullptr;
}

bool TellsTimes(const Fragment& fragment) {
  return std::any_of(fragment.signals.begin(), fragment.signals.end(),
                     [](const diag::HostSignal& signal) { return signal.at_unix_ns != 0; }) ||
         std::any_of(fragment.ranks.begin(), fragment.ranks.end(),
                     [](const RankFragment& rank) { return rank.record.state.at_unix_ns != 0; });
}

}  // namespace

void StepCollector::Add(std::optional<Rank> rank, const StepReading& reading) {
  if (!Sane(reading)) {
    ++left_out_;
    return;
  }
  const auto known = ranks_.find(rank);
  if (known == ranks_.end() && ranks_.size() >= kMostRanks) {
    ++ranks_left_out_;
    return;
  }
  Series& series = known == ranks_.end() ? ranks_[rank] : known->second;
  Run& run = series.run;
  if (!run.empty() && reading.step <= run.back().step) {
    if (run.back().step - reading.step < kRepeats) {
      ++series.repeated;
      return;
    }
    if (reading.step > run.front().step) {
      const auto redone =
          std::lower_bound(run.begin(), run.end(), reading.step,
                           [](const StepReading& a, uint64_t step) { return a.step < step; });
      const auto count = static_cast<uint64_t>(run.end() - redone);
      series.undone += count;
      held_ -= count;
      run.erase(redone, run.end());
    } else {
      ++series.runs;
      if (run.size() > series.longest.size()) std::swap(run, series.longest);
      held_ -= run.size();
      run.clear();
    }
  }
  run.push_back(reading);
  ++readings_;
  ++held_;
  if (run.size() > kMostOfRank) Thin(&series);
  if (held_ > kMostReadings) {
    for (auto& [number, each] : ranks_) Thin(&each);
  }
}

void StepCollector::Thin(Series* series) {
  held_ -= series->run.size() + series->longest.size();
  Halve(&series->run);
  Halve(&series->longest);
  held_ += series->run.size() + series->longest.size();
  series->thinned *= 2;
}

void StepCollector::AddSteps(std::optional<Rank> rank, Series series, Fragment* fragment) {
  std::vector<std::string>& notes = fragment->notes;
  Run& run = series.run;
  if (series.runs > 1) {
    if (series.longest.size() > run.size()) std::swap(run, series.longest);
    notes.push_back("steps are numbered anew " + Counted(series.runs - 1, "time") +
                    ", as by several runs; the longest is used, of " + Counted(run.size(), "step"));
  }
  if (series.undone > 0) {
    notes.push_back("the job went back to earlier steps; " + Counted(series.undone, "step") +
                    " told before that are left out");
  }
  if (series.thinned > 1) {
    notes.push_back("more steps than are kept: each is the mean of " +
                    std::to_string(series.thinned));
  }
  const bool all_timed =
      std::all_of(run.begin(), run.end(), [](const StepReading& r) { return r.seconds > 0; });
  if (!all_timed && !TimesFromRates(&run)) {
    std::erase_if(run, [](const StepReading& r) { return r.seconds == 0; });
    notes.push_back("throughput is told without times; how long a step takes is not known");
  }
  if (run.empty()) return;
  const uint32_t number = rank.value_or(Rank(0)).value;
  auto out = std::find_if(fragment->ranks.begin(), fragment->ranks.end(), [&](const auto& known) {
    return known.rank && known.rank->value == number;
  });
  if (out == fragment->ranks.end()) {
    fragment->ranks.emplace_back().rank = Rank(number);
    out = std::prev(fragment->ranks.end());
  }
  const Unit* unit = UnitOf(run);
  if (unit != nullptr) out->record.work_unit = unit->name;
  const bool timed =
      std::any_of(run.begin(), run.end(), [](const StepReading& r) { return r.at_unix_ns != 0; });
  // Times from an unknown origin do not mix with known ones.
  const bool untimed = !timed && !TellsTimes(*fragment);
  if (untimed) fragment->absolute_time = false;
  double clock_ns = static_cast<double>(kOriginNs);
  uint64_t earlier = 0;
  for (const StepReading& reading : run) {
    diag::RankStep step;
    step.step = StepId(reading.step);
    step.duration_ns = static_cast<uint64_t>(reading.seconds * 1e9);
    if (unit != nullptr) step.work = reading.*(unit->work);
    if (timed) {
      if (reading.at_unix_ns > step.duration_ns) {
        step.start_unix_ns = reading.at_unix_ns - step.duration_ns;
      }
    } else if (untimed) {
      // Steps that are not told took as long as the next one that is.
      const uint64_t covered = earlier == 0 ? 1 : reading.step - earlier;
      clock_ns += reading.seconds * 1e9 * static_cast<double>(covered - 1);
      step.start_unix_ns = static_cast<uint64_t>(std::min(clock_ns, 4e18));
      clock_ns += reading.seconds * 1e9;
    }
    earlier = reading.step;
    if (step.duration_ns > 0) KeepStep(std::move(step), &*out);
  }
}

void StepCollector::MoveTo(Fragment* fragment) {
  std::vector<std::string>& notes = fragment->notes;
  // Lines without a rank beside such with one are most often repeats.
  if (ranks_.size() > 1) {
    if (const auto unknown = ranks_.find(std::nullopt); unknown != ranks_.end()) {
      notes.push_back(Counted(unknown->second.run.size(), "step") + " without a rank left out");
      ranks_.erase(unknown);
    }
  } else if (ranks_.contains(std::nullopt)) {
    notes.push_back("which rank tells the steps is not said; they are shown as rank 0's");
  }
  for (auto& [rank, series] : ranks_) AddSteps(rank, std::move(series), fragment);
  uint64_t steps = 0, covered = 0;
  for (const RankFragment& rank : fragment->ranks) {
    if (rank.record.steps.size() < 2) continue;
    steps = std::max<uint64_t>(steps, rank.record.steps.size() - 1);
    covered = std::max(covered,
                       rank.record.steps.back().step.value - rank.record.steps.front().step.value);
  }
  if (steps > 0 && covered / steps >= 2) {
    notes.push_back("a step is told in " + std::to_string(covered / steps) +
                    "; its time stands for those between");
  }
  if (left_out_ > 0) {
    notes.push_back(Counted(left_out_, "step") + " with an impossible time left out");
  }
  if (ranks_left_out_ > 0) {
    notes.push_back(Counted(ranks_left_out_, "step") + " of too many ranks left out");
  }
  if (local_time_) notes.push_back("times tell no zone; taken as UTC");
  ranks_.clear();
  held_ = 0;
}

}  // namespace flare::import
