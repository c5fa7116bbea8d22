// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "libflare/core/event.h"

// Where a framework keeps the size and type of a tensor, learned once at run time by measuring
// tensors of known size and type (the offsets differ between versions of PyTorch).
//
// Written once by the Python side, read by hooks. Reading an unknown layout yields nothing.
namespace flare {

struct TensorLayout {
  std::atomic<uint32_t> known{0};
  uint32_t element_count_offset = 0;  // int64 in c10::TensorImpl
  uint32_t scalar_type_offset = 0;    // uint16 c10::ScalarType in c10::TensorImpl
};

extern TensorLayout g_tensor_layout;

// Adds the tensor's bytes to *bytes and sets *type. `tensor_impl` is what an at::Tensor holds.
// False when the layout is unknown or the pointer is null.
bool ReadTensor(const void* tensor_impl, uint64_t* bytes, DataType* type);

}  // namespace flare
