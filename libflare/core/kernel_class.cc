// SPDX-License-Identifier: Apache-2.0
#include "libflare/core/kernel_class.h"

#include <array>

namespace flare {
namespace {

struct Row {
  std::string_view part;  // anywhere in the name
  KernelClass kernel_class;
};

constexpr Row kRows[] = {
#define FLARE_KERNEL(part, kernel_class) {part, KernelClass::kernel_class},
#include "libflare/core/kernel_classes.inc"
#undef FLARE_KERNEL
};

constexpr std::array kNames = {"other",       "gemm",          "attention",
                               "convolution", "communication", "memory"};
static_assert(kNames.size() == kKernelClassCount);

}  // namespace

KernelClass ClassifyKernel(std::string_view name) {
  for (const Row& row : kRows) {
    if (name.find(row.part) != std::string_view::npos) return row.kernel_class;
  }
  return KernelClass::kOther;
}

const char* KernelClassName(KernelClass kernel_class) {
  const auto index = static_cast<size_t>(kernel_class);
  return index < kNames.size() ? kNames[index] : kNames[0];
}

}  // namespace flare
