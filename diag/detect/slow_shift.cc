// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/slow_shift.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "diag/detect/causes.h"
#include "diag/detect/fail_slow.h"
#include "diag/detect/signal_judgement.h"
#include "diag/detect/slow_ranks.h"
#include "diag/detect/words.h"
#include "diag/metrics/change_point.h"
#include "diag/metrics/statistics.h"
#include "diag/metrics/step_series.h"

namespace flare::diag {
namespace {

constexpr double kSameWork = 0.01;             // median work that differs by less is the same
constexpr double kExplained = 0.5;             // share of the rise that names a phase
constexpr uint64_t kNearNs = 900'000'000'000;  // a statement this close to the rise is about it
constexpr size_t kStatements = 4;

// Before and after, by position in the series.
struct Halves {
  size_t reference, begin, end;
};

template <typename Value>
std::pair<double, double> MediansOf(const Halves& halves, Value value) {
  std::vector<double> before, after;
  for (size_t i = halves.reference; i < halves.begin; ++i) before.push_back(value(i));
  for (size_t i = halves.begin; i < halves.end; ++i) after.push_back(value(i));
  return {Median(std::move(before)), Median(std::move(after))};
}

// The rise of the time for the same work; the plain one when the work is the same, nothing when
// some steps do not tell theirs and it may have changed.
std::optional<double> RiseForSameWork(const StepSeries& series, const Halves& halves,
                                      double plain) {
  const bool told =
      std::any_of(series.work.begin(), series.work.end(), [](double work) { return work > 0; });
  if (!told) return plain;
  const auto [less, more] = MediansOf(halves, [&](size_t i) { return series.work[i]; });
  if (less <= 0 || more <= 0) return std::nullopt;
  if (std::fabs(more / less - 1) <= kSameWork) return plain;
  const auto [before, after] = MediansOf(halves, [&](size_t i) {
    return series.work[i] > 0 ? series.duration_ns[i] / series.work[i] : 0;
  });
  // More work is seldom done at the same cost for each piece, less work never is: both must rise.
  return before > 0 ? std::min(plain, after / before - 1) : std::optional<double>();
}

struct Calls {
  double count = 0, bytes = 0, kernels = 0, data_ns = 0, checkpoint_ns = 0;
};

Calls CallsOf(const RankStep& step) {
  Calls calls;
  for (const CommunicatorStep& comm : step.communicators) {
    calls.count += comm.count;
    for (const OperationTotals& totals : comm.operations) {
      calls.bytes += static_cast<double>(totals.bytes);
    }
  }
  if (step.device) calls.kernels = step.device->kernels;
  for (const PhaseTime& phase : step.phases) {
    const auto total = static_cast<double>(phase.total_ns);
    if (phase.kind == EventKind::kDataLoad) calls.data_ns += total;
    if (phase.kind == EventKind::kCheckpoint) calls.checkpoint_ns += total;
  }
  return calls;
}

// Medians of what one rank did in the steps before and after.
std::pair<Calls, Calls> CallsAround(const RankRecord& rank, StepId reference, StepId begin) {
  std::vector<Calls> halves[2];
  for (const RankStep& step : rank.steps) {
    if (step.step < reference || step.step.value >= kFirstPseudoStep) continue;
    halves[step.step < begin ? 0 : 1].push_back(CallsOf(step));
  }
  Calls medians[2];
  for (int half = 0; half < 2; ++half) {
    for (const auto field :
         {&Calls::count, &Calls::bytes, &Calls::kernels, &Calls::data_ns, &Calls::checkpoint_ns}) {
      std::vector<double> values;
      for (const Calls& calls : halves[half]) values.push_back(calls.*field);
      medians[half].*field = Median(std::move(values));
    }
  }
  return {medians[0], medians[1]};
}

bool SameCalls(const Calls& before, const Calls& after) {
  const auto same = [](double a, double b) {
    return std::fabs(a - b) <= kSameWork * std::max(a, b);
  };
  return same(before.count, after.count) && same(before.bytes, after.bytes) &&
         same(before.kernels, after.kernels);
}

struct Shift {
  Rise rise;
  double ratio = 0;  // for the same work, less 1
  StepId first;      // slow one
  uint64_t since_unix_ns = 0;
  uint64_t slow_ns = 0;
  bool conclusive = false;
  std::pair<Calls, Calls> calls;
};

std::optional<Shift> FindShift(const Job& job, const StepSeries& series,
                               const SlowShiftSettings& settings) {
  RiseSettings wanted;
  wanted.min_rise = settings.min_rise;
  const std::optional<Rise> rise = FindLastingRise(series.duration_ns, wanted);
  if (!rise || rise->false_alarm > settings.weak_false_alarm ||
      rise->abruptness < settings.min_abruptness ||
      rise->size() < settings.min_over_wander * rise->wander) {
    return std::nullopt;
  }
  Shift shift;
  shift.rise = *rise;
  shift.slow_ns = static_cast<uint64_t>(series.SpanNs(rise->begin, rise->end));
  if (shift.slow_ns < settings.min_slow_ns) return std::nullopt;
  if (!job.recorded &&
      series.SpanNs(0, rise->begin) < static_cast<double>(settings.min_history_ns)) {
    return std::nullopt;
  }
  const Halves halves{rise->reference, rise->begin, rise->end};
  const std::optional<double> ratio = RiseForSameWork(series, halves, rise->size());
  if (!ratio || *ratio < settings.min_rise || *ratio < settings.min_over_wander * rise->wander) {
    return std::nullopt;
  }
  shift.ratio = *ratio;
  shift.first = series.steps[rise->begin];
  shift.since_unix_ns = series.start_unix_ns[rise->begin];
  shift.conclusive = rise->false_alarm <= settings.strict_false_alarm;
  shift.calls = CallsAround(job.ranks.begin()->second, series.steps[rise->reference], shift.first);
  if (!SameCalls(shift.calls.first, shift.calls.second)) return std::nullopt;
  return shift;
}

struct Statement {
  const HostSignal* signal;
  Judgement judgement;
};

std::vector<Statement> StatementsNear(const Job& job, uint64_t since_unix_ns) {
  std::vector<Statement> near;
  if (since_unix_ns == 0) return near;
  for (const HostSignal& signal : job.signals) {
    const uint64_t at = signal.at_unix_ns;
    if (at == 0 || at + kNearNs < since_unix_ns || at > since_unix_ns + kNearNs) continue;
    if (auto judgement = Judge(signal, job)) near.push_back({&signal, std::move(*judgement)});
  }
  return near;
}

std::string PercentText(double share) {
  char text[32];
  std::snprintf(text, sizeof text, share < 0.0995 ? "%.1f %%" : "%.0f %%", share * 100);
  return text;
}

std::string TimeText(double ns) {
  char text[48];
  const double seconds = ns * 1e-9;
  std::snprintf(text, sizeof text, seconds < 1 ? "%.4g ms" : "%.4g s",
                seconds < 1 ? seconds * 1e3 : seconds);
  return text;
}

// What explains the rise: a phase that grew by most of it, or what a host says about that time.
void NameCause(const Shift& shift, const std::vector<Statement>& near, Verdict* verdict,
               std::string* why) {
  const double more_ns = shift.rise.after - shift.rise.before;
  const auto& [before, after] = shift.calls;
  if (after.data_ns - before.data_ns >= kExplained * more_ns) {
    *verdict = MakeVerdict("fail_slow", "data_worker_slow");
    verdict->confidence = 0.8;
    verdict->action =
        "Look at the data workers and the storage they read: waiting for the next batch grew.";
    *why = ", and most of it is waiting for data";
    return;
  }
  for (const Statement& statement : near) {
    if (std::string_view(statement.judgement.finding_class) != "fail_slow") continue;
    *verdict = MakeVerdict("fail_slow", statement.judgement.cause);
    if (statement.judgement.team != nullptr) verdict->team = statement.judgement.team;
    verdict->confidence = 0.6;
    verdict->action = statement.judgement.action;
    if (!statement.signal->node.empty()) verdict->nodes = {statement.signal->node};
    *why = "; at that time " +
           (statement.signal->node.empty() ? "a host" : "node " + statement.signal->node) +
           " said: " + statement.judgement.what;
    return;
  }
  *verdict = MakeVerdict("fail_slow", "cause_not_found");
  verdict->confidence = 0.5;
  verdict->action =
      "One slow device slows all: time a matrix product and an all-reduce on each node of the job, "
      "and compare clocks, temperatures and link errors. If the program did more from that step "
      "on, "
      "this is no fault.";
  *why = "; step times alone do not tell why";
}

void AddEvidence(const Job& job, const StepSeries& series, const Shift& shift,
                 const std::vector<Statement>& near, Verdict* verdict) {
  const Rise& rise = shift.rise;
  const std::string range = " over steps " + std::to_string(shift.first.value) + "-" +
                            std::to_string(series.steps[rise.end - 1].value);
  auto& evidence = verdict->evidence;
  evidence.push_back({"Time of a step, median" + range + "; expected: median of the " +
                          std::to_string(rise.begin - rise.reference) + " before",
                      "step_time", rise.after * 1e-6, "ms", rise.before * 1e-6});
  evidence.push_back({"Probability of such a rise by chance, anywhere in the series",
                      "false_alarm",
                      rise.false_alarm,
                      "ratio",
                      {}});
  evidence.push_back({"Rise; expected: the largest of as many steps before it", "rise", rise.size(),
                      "ratio", rise.wander});
  const std::string& unit = job.ranks.begin()->second.work_unit;
  const auto [slow, fast] =
      std::pair(MediansOf({rise.reference, rise.begin, rise.end},
                          [&](size_t i) { return series.work[i] / (series.duration_ns[i] * 1e-9); })
                    .second,
                MediansOf({rise.reference, rise.begin, rise.end}, [&](size_t i) {
                  return series.work[i] / (series.duration_ns[i] * 1e-9);
                }).first);
  if (!unit.empty() && slow > 0) {
    const bool flop = unit == "FLOP";
    evidence.push_back({flop
                            ? "Useful work of one device, as the program tells it; expected: before"
                            : "Throughput, as the program tells it; expected: before",
                        "throughput", flop ? slow * 1e-12 : slow, flop ? "TFLOP/s" : unit + "/s",
                        flop ? fast * 1e-12 : fast});
  }
  for (size_t i = 0; i < std::min(near.size(), kStatements); ++i) {
    const HostSignal& signal = *near[i].signal;
    evidence.push_back(
        {"Within 15 min of it: " + signal.text + " (" + signal.source + ")", "", {}, "", {}});
  }
}

bool StillSteps(const StepSeries& series, uint64_t now, const SlowShiftSettings& settings) {
  const auto last = static_cast<uint64_t>(series.duration_ns.back());
  const uint64_t end = series.start_unix_ns.back() + last;
  return now <= end + std::max(settings.newest_step_ns, 3 * last);
}

}  // namespace

std::vector<Verdict> DetectSlowShift(const Job& job, uint64_t now_unix_ns,
                                     const SlowShiftSettings& settings) {
  if (job.ended || job.ranks.empty()) return {};
  const StepSeries series = SeriesOf(job);
  if (series.size() == 0) return {};
  if (!job.recorded && !StillSteps(series, now_unix_ns, settings)) return {};
  const std::optional<Shift> shift = FindShift(job, series, settings);
  if (!shift) return {};
  if (!DetectFailSlow(job, now_unix_ns).empty() || !DetectSlowRanks(job, now_unix_ns).empty()) {
    return {};
  }
  const std::vector<Statement> near = StatementsNear(job, shift->since_unix_ns);
  Verdict verdict;
  std::string why;
  NameCause(*shift, near, &verdict, &why);
  verdict.conclusive = shift->conclusive;
  if (!verdict.conclusive) verdict.confidence *= 0.7;
  verdict.since_unix_ns = shift->since_unix_ns;
  verdict.lost_share = shift->ratio / (1 + shift->ratio);
  verdict.summary = "Since step " + std::to_string(shift->first.value) + " the job takes " +
                    PercentText(shift->ratio) + " longer for each step (" +
                    TimeText(shift->rise.after) + " instead of " + TimeText(shift->rise.before) +
                    ", for " + DurationText(shift->slow_ns) + " now)" + why + ".";
  AddEvidence(job, series, *shift, near, &verdict);
  return {verdict};
}

}  // namespace flare::diag
