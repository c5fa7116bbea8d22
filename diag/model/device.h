// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libflare/core/kernel_class.h"
#include "libflare/core/event.h"
#include "libflare/core/quantile_sketch.h"

// Plain values: what the device of one rank did during one step, folded from its kernels.
//
// Times are nanoseconds. "Union" is the length of the union of intervals: kernels that run side by
// side on several streams count once. Memory operations are copies and fills by the copy engines.
namespace flare::diag {

struct KernelTotals {
  KernelClass kernel_class = KernelClass::kOther;
  uint32_t count = 0;
  uint64_t total_ns = 0;
  QuantileSketch duration;  // ns
};

// Matrix products of one shape: C[m,n] += A[m,k] B[k,n], `batch` times.
struct GemmTotals {
  uint32_t batch = 1, m = 0, n = 0, k = 0;
  DataType data_type = DataType::kUnknown;
  uint32_t count = 0;
  uint64_t total_ns = 0;
  uint64_t overlapped_ns = 0;  // part of total_ns with a communication kernel running beside
};

struct DeviceStep {
  uint32_t kernels = 0;                // compute and communication; without memory operations
  uint32_t communication_kernels = 0;
  uint32_t memory_operations = 0;
  uint32_t streams = 0;
  uint64_t span_ns = 0;           // first begin to last end of any device activity
  uint64_t busy_ns = 0;           // union of all device activity
  uint64_t compute_ns = 0;        // union of compute kernels
  uint64_t communication_ns = 0;  // union of communication kernels
  uint64_t memory_ns = 0;         // union of memory operations
  uint64_t overlap_ns = 0;        // of communication with compute kernels (intersection of unions)
  // End of the last kernel of the step before to the first of this one: numerator of V_inter.
  uint64_t inter_step_ns = 0;
  // Device start - host launch, per kernel, ns. Kernels whose launch was not seen are left out.
  QuantileSketch compute_issue_latency;
  QuantileSketch communication_issue_latency;
  std::vector<KernelTotals> classes;
  std::vector<GemmTotals> gemms;
  std::vector<std::string> devices;  // "NVIDIA A100-SXM4-80GB"; usually one
};

}  // namespace flare::diag
