// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/device_total.h"

#include <algorithm>
#include <limits>

namespace flare::diag {
namespace {

template <typename Int>
void AddTo(Int more, Int* sum) {
  if (__builtin_add_overflow(*sum, more, sum)) *sum = std::numeric_limits<Int>::max();
}

}  // namespace

void DeviceTotal::Add(const DeviceStep& step) {
  AddTo(step.kernels, &sum_.kernels);
  AddTo(step.communication_kernels, &sum_.communication_kernels);
  AddTo(step.memory_operations, &sum_.memory_operations);
  sum_.streams = std::max(sum_.streams, step.streams);
  for (const auto time : {&DeviceStep::span_ns, &DeviceStep::busy_ns, &DeviceStep::compute_ns,
                          &DeviceStep::communication_ns, &DeviceStep::memory_ns,
                          &DeviceStep::overlap_ns, &DeviceStep::inter_step_ns}) {
    AddTo(step.*time, &(sum_.*time));
  }
  sum_.compute_issue_latency.Merge(step.compute_issue_latency);
  sum_.communication_issue_latency.Merge(step.communication_issue_latency);
  for (const KernelTotals& kernels : step.classes) {
    const auto index = static_cast<size_t>(kernels.kernel_class);
    if (index >= classes_.size()) continue;
    AddTo(kernels.count, &classes_[index].count);
    AddTo(kernels.total_ns, &classes_[index].total_ns);
    classes_[index].duration.Merge(kernels.duration);
  }
  for (const GemmTotals& gemm : step.gemms) {
    const Shape shape{gemm.batch, gemm.m, gemm.n, gemm.k, gemm.data_type};
    const auto [place, is_new] = gemms_.try_emplace(shape, gemm);
    if (is_new) continue;
    AddTo(gemm.count, &place->second.count);
    AddTo(gemm.total_ns, &place->second.total_ns);
    AddTo(gemm.overlapped_ns, &place->second.overlapped_ns);
  }
  for (const std::string& device : step.devices) {
    auto& known = sum_.devices;
    if (std::find(known.begin(), known.end(), device) == known.end()) known.push_back(device);
  }
}

DeviceStep DeviceTotal::Sum() const {
  DeviceStep sum = sum_;
  for (size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i].count == 0) continue;
    sum.classes.push_back(classes_[i]);
    sum.classes.back().kernel_class = static_cast<KernelClass>(i);
  }
  for (const auto& [shape, gemm] : gemms_) sum.gemms.push_back(gemm);
  std::stable_sort(
      sum.gemms.begin(), sum.gemms.end(),
      [](const GemmTotals& a, const GemmTotals& b) { return a.total_ns > b.total_ns; });
  if (sum.gemms.size() > kMostGemms) sum.gemms.resize(kMostGemms);
  return sum;
}

RankDevice DeviceOver(const RankRecord& rank, size_t most_steps) {
  RankDevice over;
  DeviceTotal total;
  for (auto step = rank.steps.rbegin(); step != rank.steps.rend() && over.steps < most_steps;
       ++step) {
    if (!step->device) continue;
    total.Add(*step->device);
    ++over.steps;
    AddTo(step->duration_ns, &over.steps_ns);
  }
  over.device = total.Sum();
  return over;
}

}  // namespace flare::diag
