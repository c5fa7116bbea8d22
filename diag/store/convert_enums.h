// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libflare/core/event.h"
#include "libflare/core/kernel_class.h"

// Enum values from other processes: one that we do not know becomes the unknown value.
namespace flare::diag {

inline EventKind KindFromProto(int value) {
  return value > 0 && value < kEventKindCount ? static_cast<EventKind>(value) : EventKind::kNone;
}

inline Operation OperationFromProto(int value) {
  return value > 0 && value < kOperationCount ? static_cast<Operation>(value) : Operation::kUnknown;
}

inline DataType DataTypeFromProto(int value) {
  return value > 0 && value < kDataTypeCount ? static_cast<DataType>(value) : DataType::kUnknown;
}

inline KernelClass KernelClassFromProto(int value) {
  return value > 0 && value < kKernelClassCount ? static_cast<KernelClass>(value)
                                                : KernelClass::kOther;
}

}  // namespace flare::diag
