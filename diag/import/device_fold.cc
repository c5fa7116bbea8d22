// SPDX-License-Identifier: Apache-2.0
#include "diag/import/device_fold.h"

#include <algorithm>

namespace flare::import {
namespace {

// Matrix products that run side by side, at most: streams that compute at the same time are few.
constexpr size_t kMaxRunningGemms = 64;

uint64_t Length(int64_t from, int64_t to) {
  return to > from ? static_cast<uint64_t>(to - from) : 0;
}

}  // namespace

void DeviceFold::AddUnion(int64_t begin, int64_t end, int64_t* reach, uint64_t* total) {
  *total += Length(std::max(begin, *reach), end);
  *reach = std::max(*reach, end);
}

void DeviceFold::AddGemm(const KernelRow& row) {
  Gemm& gemm = gemms_[row.tag];
  ++gemm.count;
  gemm.total_ns += row.duration_ns;
  gemm.overlapped_ns += Length(row.begin_ns, std::min(row.end_ns(), communication_end_));
  std::erase_if(running_, [&](const RunningGemm& r) { return r.end_ns <= row.begin_ns; });
  if (running_.size() == kMaxRunningGemms) running_.erase(running_.begin());
  running_.push_back({row.end_ns(), row.tag});
}

// A communication kernel covers [begin, end) anew: part of it may lie over products that still run.
void DeviceFold::CoverGemms(int64_t begin, int64_t end) {
  for (const RunningGemm& gemm : running_) {
    gemms_[gemm.shape].overlapped_ns += Length(begin, std::min(end, gemm.end_ns));
  }
}

void DeviceFold::Add(const KernelRow& row, bool details) {
  const int64_t begin = row.begin_ns, end = row.end_ns();
  first_ns_ = std::min(first_ns_, begin);
  AddUnion(begin, end, &busy_end_, &step_.busy_ns);
  streams_.set(row.stream);
  const auto kernel_class = static_cast<KernelClass>(row.kernel_class);
  if (row.memory_operation) {
    ++step_.memory_operations;
    AddUnion(begin, end, &memory_end_, &step_.memory_ns);
  } else {
    ++step_.kernels;
    first_kernel_ns_ = std::min(first_kernel_ns_, begin);
    last_kernel_end_ns_ = std::max(last_kernel_end_ns_, end);
    if (kernel_class == KernelClass::kCommunication) {
      ++step_.communication_kernels;
      const int64_t from = std::max(begin, communication_end_);
      step_.overlap_ns += Length(from, std::min(end, compute_end_));
      if (details) CoverGemms(from, end);
      AddUnion(begin, end, &communication_end_, &step_.communication_ns);
    } else {
      const int64_t from = std::max(begin, compute_end_);
      step_.overlap_ns += Length(from, std::min(end, communication_end_));
      AddUnion(begin, end, &compute_end_, &step_.compute_ns);
      if (details && kernel_class == KernelClass::kGemm && row.tag != 0) AddGemm(row);
    }
  }
  if (!details) return;
  diag::KernelTotals& totals = classes_[std::min<size_t>(row.kernel_class, kKernelClassCount - 1)];
  ++totals.count;
  totals.total_ns += row.duration_ns;
  totals.duration.Add(row.duration_ns);
  // A device clock that runs ahead of the host's gives a latency below zero, which means nothing.
  if (!row.launched || row.memory_operation || row.launch > begin) return;
  QuantileSketch& latency = kernel_class == KernelClass::kCommunication
                                ? step_.communication_issue_latency
                                : step_.compute_issue_latency;
  latency.Add(static_cast<uint64_t>(begin - row.launch));
}

void DeviceFold::AddDetails(const DeviceFold& other) {
  for (size_t i = 0; i < classes_.size(); ++i) {
    classes_[i].count += other.classes_[i].count;
    classes_[i].total_ns += other.classes_[i].total_ns;
    classes_[i].duration.Merge(other.classes_[i].duration);
  }
  for (const auto& [shape, gemm] : other.gemms_) {
    Gemm& sum = gemms_[shape];
    sum.count += gemm.count;
    sum.total_ns += gemm.total_ns;
    sum.overlapped_ns += gemm.overlapped_ns;
  }
  step_.compute_issue_latency.Merge(other.step_.compute_issue_latency);
  step_.communication_issue_latency.Merge(other.step_.communication_issue_latency);
}

diag::DeviceStep DeviceFold::Finish(const std::vector<diag::GemmTotals>& shapes) const {
  diag::DeviceStep step = step_;
  step.span_ns = empty() ? 0 : Length(first_ns_, busy_end_);
  step.streams = static_cast<uint32_t>(streams_.count());
  for (size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i].count == 0) continue;
    step.classes.push_back(classes_[i]);
    step.classes.back().kernel_class = static_cast<KernelClass>(i);
  }
  for (const auto& [shape, gemm] : gemms_) {
    if (shape > shapes.size()) continue;
    diag::GemmTotals totals = shapes[shape - 1];
    totals.count = gemm.count;
    totals.total_ns = gemm.total_ns;
    totals.overlapped_ns = std::min(gemm.overlapped_ns, gemm.total_ns);
    step.gemms.push_back(totals);
  }
  std::sort(step.gemms.begin(), step.gemms.end(),
            [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
  return step;
}

}  // namespace flare::import
