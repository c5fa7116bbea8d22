// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "libflare/core/event.h"

// What the names in PyTorch traces mean, for CUDA and HIP, in all versions since 1.8.
namespace flare::import {

enum class RuntimeCall : uint8_t {
  kOther,
  kLaunch,       // of one kernel, copy or fill
  kGraphLaunch,  // of all kernels of a graph
  kSynchronize,  // the host waits for the device
  kMemory,       // allocates or frees device memory
};
RuntimeCall ClassifyRuntimeCall(std::string_view name);

// A host span that a step is told by; kNone: not worth keeping. `name` refers to the text given.
struct HostPhase {
  EventKind kind = EventKind::kNone;
  std::string_view name;
};
HostPhase PhaseOfAnnotation(std::string_view name);
HostPhase PhaseOfPythonFrame(std::string_view name);

// "ProfilerStep#12" to 12; false when it is no step mark.
bool ParseProfilerStep(std::string_view name, uint64_t* number);

// "allreduce", "_allgather_base", "all_to_allv", as record_param_comms and "nccl:" marks have them.
Operation OperationNamed(std::string_view name);
// "ncclDevKernel_AllReduce_Sum_f16_RING_LL(...)" and its older forms.
Operation OperationOfKernel(std::string_view kernel);

// "Float", "c10::BFloat16", "long int".
DataType DataTypeNamed(std::string_view name);
uint32_t BytesOf(DataType type);  // 0 unknown

}  // namespace flare::import
