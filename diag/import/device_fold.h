// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "diag/import/kernel_table.h"
#include "diag/model/device.h"

// Folds device activities, given in order of their begin, to one DeviceStep in constant memory.
//
// All activities so far began no later than the next one. From its begin on, the union of a kind is
// therefore one interval that reaches to the latest end, which makes unions, and the intersection
// of two of them, a matter of comparing ends.
namespace flare::import {

class DeviceFold {
 public:
  // Unions and counts; distributions and shapes too when `details`.
  void Add(const KernelRow& row, bool details);
  // Distributions, classes and shapes of `other` are added; unions are not.
  void AddDetails(const DeviceFold& other);

  bool empty() const { return step_.kernels == 0 && step_.memory_operations == 0; }
  int64_t first_kernel_ns() const { return first_kernel_ns_; }  // INT64_MAX when there is none
  int64_t last_kernel_end_ns() const { return last_kernel_end_ns_; }
  uint32_t rows() const { return step_.kernels + step_.memory_operations; }

  diag::DeviceStep Finish(const std::vector<diag::GemmTotals>& shapes) const;

 private:
  struct Gemm {
    uint32_t count = 0;
    uint64_t total_ns = 0;
    uint64_t overlapped_ns = 0;
  };
  struct RunningGemm {
    int64_t end_ns;
    uint32_t shape;
  };
  void AddUnion(int64_t begin, int64_t end, int64_t* reach, uint64_t* total);
  void AddGemm(const KernelRow& row);
  void CoverGemms(int64_t begin, int64_t end);

  diag::DeviceStep step_;
  std::array<diag::KernelTotals, kKernelClassCount> classes_;
  std::unordered_map<uint32_t, Gemm> gemms_;
  std::vector<RunningGemm> running_;
  std::bitset<KernelRow::kMaxStreams> streams_;
  int64_t first_ns_ = INT64_MAX, busy_end_ = INT64_MIN;
  int64_t compute_end_ = INT64_MIN, communication_end_ = INT64_MIN, memory_end_ = INT64_MIN;
  int64_t first_kernel_ns_ = INT64_MAX, last_kernel_end_ns_ = INT64_MIN;
};

}  // namespace flare::import
