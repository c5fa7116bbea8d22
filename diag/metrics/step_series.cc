// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/step_series.h"

#include <algorithm>
#include <map>
#include <utility>

#include "diag/metrics/statistics.h"

namespace flare::diag {
namespace {

bool Counts(const RankStep& step) {
  return step.duration_ns > 0 && step.step.value < kFirstPseudoStep;
}

struct Row {
  std::vector<double> durations;
  uint64_t start_unix_ns = 0;
  double work = 0;
};

template <typename List>
void DropFirst(List* list) {
  list->erase(list->begin());
}

void DropStartUp(StepSeries* series) {
  if (series->size() < 2) return;
  DropFirst(&series->steps);
  DropFirst(&series->start_unix_ns);
  DropFirst(&series->duration_ns);
  DropFirst(&series->work);
}

}  // namespace

double StepSeries::SpanNs(size_t begin, size_t end) const {
  double span = 0;
  for (size_t i = begin; i < end; ++i) {
    const uint64_t covered = i > 0 ? steps[i].value - steps[i - 1].value : 1;
    span += duration_ns[i] * static_cast<double>(std::max<uint64_t>(covered, 1));
  }
  return span;
}

StepSeries SeriesOf(const RankRecord& rank) {
  StepSeries series;
  for (const RankStep& step : rank.steps) {
    if (!Counts(step)) continue;
    series.steps.push_back(step.step);
    series.start_unix_ns.push_back(step.start_unix_ns);
    series.duration_ns.push_back(static_cast<double>(step.duration_ns));
    series.work.push_back(step.work);
  }
  DropStartUp(&series);
  return series;
}

StepSeries SeriesOf(const Job& job) {
  if (job.ranks.size() == 1) return SeriesOf(job.ranks.begin()->second);
  std::map<StepId, Row> rows;
  const size_t stride = (job.ranks.size() + kSeriesRanks - 1) / kSeriesRanks;
  size_t index = 0;
  for (const auto& [rank, record] : job.ranks) {
    if (index++ % std::max<size_t>(stride, 1) != 0) continue;
    for (const RankStep& step : record.steps) {
      if (!Counts(step)) continue;
      Row& row = rows[step.step];
      row.durations.push_back(static_cast<double>(step.duration_ns));
      if (row.start_unix_ns == 0) row.start_unix_ns = step.start_unix_ns;
      row.work = std::max(row.work, step.work);
    }
  }
  StepSeries series;
  for (auto& [step, row] : rows) {
    series.steps.push_back(step);
    series.start_unix_ns.push_back(row.start_unix_ns);
    series.duration_ns.push_back(Median(std::move(row.durations)));
    series.work.push_back(row.work);
  }
  DropStartUp(&series);
  return series;
}

}  // namespace flare::diag
