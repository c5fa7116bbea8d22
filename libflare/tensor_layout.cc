// SPDX-License-Identifier: Apache-2.0
#include "libflare/tensor_layout.h"

#include <cstring>

namespace flare {

TensorLayout g_tensor_layout;

namespace {

struct ScalarTypeEntry {
  DataType type;
  uint8_t bytes;
};

// By c10::ScalarType, whose numbers are part of PyTorch's serialised format and stay put.
constexpr ScalarTypeEntry kScalarTypes[] = {
    {DataType::kUint8, 1},     {DataType::kInt8, 1},       {DataType::kInt16, 2},
    {DataType::kInt32, 4},     {DataType::kInt64, 8},      {DataType::kFloat16, 2},
    {DataType::kFloat32, 4},   {DataType::kFloat64, 8},    {DataType::kUnknown, 4},
    {DataType::kComplex64, 8}, {DataType::kComplex128, 16}, {DataType::kBool, 1},
    {DataType::kUnknown, 1},   {DataType::kUnknown, 1},    {DataType::kUnknown, 4},
    {DataType::kBfloat16, 2},
};

}  // namespace

bool ReadTensor(const void* tensor_impl, uint64_t* bytes, DataType* type) {
  if (tensor_impl == nullptr || g_tensor_layout.known.load(std::memory_order_acquire) == 0) {
    return false;
  }
  const char* base = static_cast<const char*>(tensor_impl);
  int64_t elements;
  uint16_t scalar_type;
  std::memcpy(&elements, base + g_tensor_layout.element_count_offset, sizeof(elements));
  std::memcpy(&scalar_type, base + g_tensor_layout.scalar_type_offset, sizeof(scalar_type));
  // A tensor without storage (undefined) has element count 0 or 1 and no type; it has no bytes.
  if (elements < 0 || elements > (int64_t{1} << 48)) return false;
  if (scalar_type >= sizeof(kScalarTypes) / sizeof(kScalarTypes[0])) return false;
  *type = kScalarTypes[scalar_type].type;
  *bytes += static_cast<uint64_t>(elements) * kScalarTypes[scalar_type].bytes;
  return true;
}

}  // namespace flare
