// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

// What a device kernel is for, from its name.
namespace flare {

enum class KernelClass : uint8_t {
  kOther = 0,  // element-wise, reductions, normalisation and all else: the minority kernels
  kGemm = 1,
  kAttention = 2,
  kConvolution = 3,
  kCommunication = 4,
  kMemory = 5,  // copies and fills, by kernels or copy engines
};
inline constexpr uint8_t kKernelClassCount = 6;

// By the table in kernel_classes.inc, first match wins. `name` may be mangled or not. No allocation.
KernelClass ClassifyKernel(std::string_view name);

// "gemm", "attention", "convolution", "communication", "memory", "other".
const char* KernelClassName(KernelClass kernel_class);

}  // namespace flare
