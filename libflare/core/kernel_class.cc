// SPDX-License-Identifier: Apache-2.0
#include "libflare/core/kernel_class.h"

#include <array>

namespace flare {
namespace {

enum Where : uint8_t { kBegin, kWord, kHead, kCamel, kAnywhere };

struct Row {
  std::string_view part;
  Where where;
  KernelClass kernel_class;
};

constexpr Row kRows[] = {
#define FLARE_KERNEL(part, where, kernel_class) {part, where, KernelClass::kernel_class},
#include "libflare/core/kernel_classes.inc"
#undef FLARE_KERNEL
};

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsLetter(char c) { return IsLower(c) || (c >= 'A' && c <= 'Z'); }

bool Matches(std::string_view name, const Row& row) {
  if (row.where == kBegin) return name.substr(0, row.part.size()) == row.part;
  for (size_t at = name.find(row.part); at != std::string_view::npos;
       at = name.find(row.part, at + 1)) {
    const size_t end = at + row.part.size();
    const bool after_letter = at > 0 && IsLetter(name[at - 1]);
    const bool before_lower = end < name.size() && IsLower(name[end]);
    switch (row.where) {
      case kWord:
        if (!after_letter && !before_lower) return true;
        break;
      case kHead:
        if (!after_letter) return true;
        break;
      case kCamel:
        if (!before_lower) return true;
        break;
      default:
        return true;
    }
  }
  return false;
}

constexpr std::array kNames = {"other",       "gemm",          "attention",
                               "convolution", "communication", "memory"};
static_assert(kNames.size() == kKernelClassCount);

}  // namespace

KernelClass ClassifyKernel(std::string_view name) {
  for (const Row& row : kRows) {
    if (Matches(name, row)) return row.kernel_class;
  }
  return KernelClass::kOther;
}

const char* KernelClassName(KernelClass kernel_class) {
  const auto index = static_cast<size_t>(kernel_class);
  return index < kNames.size() ? kNames[index] : kNames[0];
}

}  // namespace flare
