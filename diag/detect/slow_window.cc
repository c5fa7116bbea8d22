// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/slow_window.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "diag/metrics/own_time.h"
#include "diag/metrics/statistics.h"
#include "diag/metrics/wait_caused.h"

namespace flare::diag {
namespace {

// Windows, in steps. The number of them counts in the false alarm rate.
constexpr std::array<uint32_t, 8> kWindows = {8, 12, 16, 24, 36, 60, 100, 160};
constexpr size_t kOnsetBlock = 8;
constexpr double kTail = 4;         // a step's wait counts at most this many times the median
constexpr double kStandsOut = 0.5;  // of its excess over the median must remain over the next
constexpr double kSpinning = 0.9;   // CPU per wall time at which waiting cannot be told from work
constexpr double kSpinningWait = 0.15;  // share of the step spent waiting for that to matter
constexpr double kEachQuarter = 0.5;    // of the excess must show in each quarter of the window

// One step as all ranks reported it.
struct Row {
  StepId step;
  std::vector<const RankStep*> by_rank;
  std::vector<double> caused_ns;
  std::vector<double> longest_ns;
  double total_caused_ns = 0;
};

std::vector<Row> CommonSteps(const Job& job, std::vector<Rank>* ranks) {
  std::map<StepId, std::vector<const RankStep*>> steps;
  for (const auto& [rank, record] : job.ranks) {
    for (const RankStep& step : record.steps) {
      // Step 0 is start-up; a step without duration was not seen from its start.
      if (step.step.value == 0 || step.step.value >= kFirstPseudoStep) continue;
      if (step.duration_ns == 0) continue;
      std::vector<const RankStep*>& row = steps[step.step];
      if (row.size() == ranks->size()) row.push_back(&step);
    }
    ranks->push_back(rank);
  }
  std::vector<Row> rows;
  for (auto& [step, row] : steps) {
    if (row.size() == ranks->size()) rows.push_back({step, std::move(row), {}, {}, 0});
  }
  return rows;
}

// Without durations of single collectives (more than are listed, or partly unseen) the totals say
// nearly the same: who communicates least has waited least.
void ChargeByTotals(Row* row) {
  size_t least = 0;
  for (size_t r = 1; r < row->by_rank.size(); ++r) {
    if (row->by_rank[r]->communication_ns < row->by_rank[least]->communication_ns) least = r;
  }
  for (const RankStep* step : row->by_rank) {
    row->caused_ns[least] +=
        static_cast<double>(step->communication_ns - row->by_rank[least]->communication_ns);
  }
  row->total_caused_ns = row->caused_ns[least];
  row->longest_ns[least] = row->total_caused_ns / static_cast<double>(row->by_rank.size() - 1);
}

// Charges the steps that windows can reach.
void Charge(const Job& job, const std::vector<Rank>& ranks, std::vector<Row>* rows) {
  const size_t reach = std::min<size_t>(rows->size(), kWindows.back());
  const auto begin = rows->end() - static_cast<ptrdiff_t>(reach);
  std::map<StepId, StepWait> waits;
  for (StepWait& wait : WaitCaused(job, begin->step, rows->back().step)) {
    waits[wait.step] = std::move(wait);
  }
  for (auto it = begin; it != rows->end(); ++it) {
    Row& row = *it;
    row.caused_ns.assign(ranks.size(), 0);
    row.longest_ns.assign(ranks.size(), 0);
    const auto wait = waits.find(row.step);
    if (wait == waits.end() || wait->second.total_ns == 0) {
      ChargeByTotals(&row);
      continue;
    }
    for (size_t r = 0; r < ranks.size(); ++r) {
      const auto caused = wait->second.caused.find(ranks[r]);
      if (caused != wait->second.caused.end()) {
        row.caused_ns[r] = static_cast<double>(caused->second);
      }
      const auto longest = wait->second.longest.find(ranks[r]);
      if (longest != wait->second.longest.end()) {
        row.longest_ns[r] = static_cast<double>(longest->second);
      }
    }
    row.total_caused_ns = static_cast<double>(wait->second.total_ns);
  }
}

template <typename Value>
double MedianOver(const std::vector<Row>& rows, size_t begin, size_t end, Value value) {
  std::vector<double> values;
  values.reserve(end - begin);
  for (size_t i = begin; i < end; ++i) values.push_back(value(rows[i]));
  return Median(std::move(values));
}

// A value that the true median exceeds with a probability of about 97 %: the order statistic two
// standard errors (sqrt(n) places) below the middle.
template <typename Value>
double LowerMedianOver(const std::vector<Row>& rows, size_t begin, size_t end, Value value) {
  std::vector<double> values;
  values.reserve(end - begin);
  for (size_t i = begin; i < end; ++i) values.push_back(value(rows[i]));
  const double fraction = std::max(0.0, 0.5 - 1 / std::sqrt(static_cast<double>(end - begin)));
  return Quantile(std::move(values), fraction);
}

double CpuExcess(const Row& row, size_t slow) {
  std::vector<double> others;
  for (size_t r = 0; r < row.by_rank.size(); ++r) {
    if (r != slow) others.push_back(static_cast<double>(row.by_rank[r]->cpu_ns));
  }
  return static_cast<double>(row.by_rank[slow]->cpu_ns) - Median(std::move(others));
}

struct Excess {
  double slow = 0;
  double others = 0;  // median over the other ranks of their median over steps
  double next = 0;    // largest among the others
};

template <typename Value>
Excess ExcessOf(const std::vector<Row>& rows, size_t begin, size_t end, size_t slow, Value value) {
  Excess excess;
  std::vector<double> others;
  for (size_t r = 0; r < rows[begin].by_rank.size(); ++r) {
    const double median = MedianOver(rows, begin, end, [&](const Row& row) {
      return static_cast<double>(value(*row.by_rank[r]));
    });
    if (r == slow) {
      excess.slow = median;
    } else {
      others.push_back(median);
      excess.next = std::max(excess.next, median);
    }
  }
  excess.others = Median(std::move(others));
  return excess;
}

uint64_t OwnNs(const RankStep& step) { return OwnTimeOf(step).own_ns; }

size_t MostCharged(const Row& row) {
  return static_cast<size_t>(std::max_element(row.caused_ns.begin(), row.caused_ns.end()) -
                             row.caused_ns.begin());
}

uint64_t EndOf(const Row& row) {
  uint64_t end = 0;
  for (const RankStep* step : row.by_rank) {
    end = std::max(end, step->start_unix_ns + step->duration_ns);
  }
  return end;
}

// Walks back from the window in blocks while the rank is slow there too.
void FindOnset(const std::vector<Row>& rows, size_t begin, size_t slow, double least_excess,
               SlowWindow* window) {
  size_t onset = begin;
  while (onset > 0) {
    const size_t block = onset - std::min(onset, kOnsetBlock);
    const Excess own = ExcessOf(rows, block, onset, slow, OwnNs);
    if (own.slow < own.others * (1 + least_excess / 2)) break;
    onset = block;
  }
  window->onset = rows[onset].step;
  window->from_start = onset == 0;
  window->since_unix_ns = rows[onset].by_rank[slow]->start_unix_ns;
}

bool ShowsInEachQuarter(const std::vector<Row>& rows, size_t begin, size_t slow, double excess) {
  const size_t count = rows.size() - begin;
  for (size_t q = 0; q < 4; ++q) {
    const size_t from = begin + count * q / 4, to = begin + count * (q + 1) / 4;
    const Excess own = ExcessOf(rows, from, to, slow, OwnNs);
    if (own.slow < own.others * (1 + kEachQuarter * excess)) return false;
  }
  return true;
}

// Charges of the window with single long steps cut to size: one hiccup must not decide.
std::vector<double> CutCharges(const std::vector<Row>& rows, size_t begin, double* total) {
  const double median =
      MedianOver(rows, begin, rows.size(), [](const Row& row) { return row.total_caused_ns; });
  std::vector<double> charges(rows[begin].caused_ns.size(), 0);
  for (size_t i = begin; i < rows.size(); ++i) {
    const double limit = kTail * median;
    const double scale = rows[i].total_caused_ns > limit ? limit / rows[i].total_caused_ns : 1;
    for (size_t r = 0; r < charges.size(); ++r) {
      charges[r] += scale * rows[i].caused_ns[r];
      *total += scale * rows[i].caused_ns[r];
    }
  }
  return charges;
}

// Whether any rank's own time stands out at all: much cheaper than charging every collective.
bool AnyoneStandsOut(const std::vector<Row>& rows, size_t begin, double least_excess) {
  std::vector<double> own;
  for (size_t r = 0; r < rows[begin].by_rank.size(); ++r) {
    own.push_back(MedianOver(rows, begin, rows.size(), [&](const Row& row) {
      return static_cast<double>(OwnNs(*row.by_rank[r]));
    }));
  }
  const auto largest = std::max_element(own.begin(), own.end());
  const double most = *largest;
  own.erase(largest);
  return most >= (1 + least_excess) * Median(std::move(own));
}

// Ranks that spin while they wait use the CPU like one that works.
bool CpuTells(const SlowWindow& window) {
  if (window.others_cpu_ns <= 0 || window.slow_cpu_ns <= 0) return false;
  const double wait_share = 1 - window.others_own_ns / std::max(window.step_ns, 1.0);
  return window.others_cpu_ns <= kSpinning * window.step_ns || wait_share <= kSpinningWait;
}

std::optional<SlowWindow> Judge(const std::vector<Row>& rows, const std::vector<Rank>& ranks,
                                size_t begin, const FailSlowSettings& settings) {
  double total = 0;
  const std::vector<double> charges = CutCharges(rows, begin, &total);
  if (total <= 0) return std::nullopt;
  const auto slow =
      static_cast<size_t>(std::max_element(charges.begin(), charges.end()) - charges.begin());
  SlowWindow window;
  window.slow = ranks[slow];
  window.ranks = static_cast<uint32_t>(ranks.size());
  window.steps = static_cast<uint32_t>(rows.size() - begin);
  window.charge_share = charges[slow] / total;
  for (size_t i = begin; i < rows.size(); ++i) window.steps_last += MostCharged(rows[i]) == slow;
  window.false_alarm =
      std::min(1.0, BinomialTail(window.steps, window.steps_last, 1.0 / window.ranks) *
                        window.ranks * kWindows.size());
  window.step_ns = MedianOver(rows, begin, rows.size(), [&](const Row& row) {
    return static_cast<double>(row.by_rank[slow]->duration_ns);
  });
  const double summed_ns = MedianOver(rows, begin, rows.size(), [&](const Row& row) {
    return row.caused_ns[slow] / static_cast<double>(ranks.size() - 1);
  });
  window.longest_ns = LowerMedianOver(rows, begin, rows.size(),
                                      [&](const Row& row) { return row.longest_ns[slow]; });
  const Excess own = ExcessOf(rows, begin, rows.size(), slow, OwnNs);
  window.slow_own_ns = own.slow;
  window.others_own_ns = own.others;
  const double excess = own.slow - own.others;
  if (window.false_alarm > settings.weak_false_alarm ||
      window.charge_share < settings.min_charge_share ||
      window.steps_last < settings.min_step_share * window.steps ||
      excess < settings.min_own_excess * own.others || own.slow - own.next < kStandsOut * excess ||
      !ShowsInEachQuarter(rows, begin, slow, settings.min_own_excess)) {
    return std::nullopt;
  }
  const Excess compute = ExcessOf(rows, begin, rows.size(), slow,
                                  [](const RankStep& step) { return OwnTimeOf(step).compute_ns; });
  const Excess data = ExcessOf(rows, begin, rows.size(), slow,
                               [](const RankStep& step) { return OwnTimeOf(step).data_load_ns; });
  const Excess cpu =
      ExcessOf(rows, begin, rows.size(), slow, [](const RankStep& step) { return step.cpu_ns; });
  window.slow_compute_ns = compute.slow;
  window.others_compute_ns = compute.others;
  window.data_excess_ns = data.slow - data.others;
  window.slow_cpu_ns = cpu.slow;
  window.others_cpu_ns = cpu.others;
  window.cpu_tells = CpuTells(window);
  window.wait_ns = window.longest_ns;
  if (window.cpu_tells) {
    const double cpu_excess = LowerMedianOver(rows, begin, rows.size(),
                                              [&](const Row& row) { return CpuExcess(row, slow); });
    window.wait_ns = std::max(window.wait_ns, std::min({summed_ns, excess, cpu_excess}));
  }
  if (window.wait_ns < settings.min_wait_share * window.step_ns) return std::nullopt;
  window.first = rows[begin].step;
  window.last = rows.back().step;
  window.end_unix_ns = EndOf(rows.back());
  FindOnset(rows, begin, slow, settings.min_own_excess, &window);
  return window;
}

}  // namespace

std::optional<SlowWindow> FindSlowWindow(const Job& job, uint64_t now_unix_ns,
                                         const FailSlowSettings& settings) {
  std::vector<Rank> ranks;
  std::vector<Row> rows = CommonSteps(job, &ranks);
  if (ranks.size() < 2 || rows.size() < settings.min_steps) return std::nullopt;
  const uint64_t newest = EndOf(rows.back());
  if (now_unix_ns > newest + settings.newest_step_ns) return std::nullopt;
  bool charged = false;
  std::optional<SlowWindow> best;
  for (uint32_t steps : kWindows) {
    if (steps < settings.min_steps || steps > settings.max_steps || steps > rows.size()) continue;
    const size_t begin = rows.size() - steps;
    // Of very short steps not enough are kept to fill the span; then half of it must do.
    const uint64_t span =
        steps == kWindows.back() ? settings.min_span_ns / 2 : settings.min_span_ns;
    if (newest < rows[begin].by_rank.front()->start_unix_ns + span) continue;
    if (!AnyoneStandsOut(rows, begin, settings.min_own_excess)) continue;
    if (!charged) Charge(job, ranks, &rows);
    charged = true;
    const std::optional<SlowWindow> window = Judge(rows, ranks, begin, settings);
    if (window && (!best || window->false_alarm < best->false_alarm)) best = window;
  }
  return best;
}

}  // namespace flare::diag
