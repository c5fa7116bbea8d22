// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "libflare/recorder.h"
#include "libflare/tensor_layout.h"

// PyTorch's objects as the gloo hooks see them: opaque, passed on as they came, read only where
// their layout is part of the C++ ABI (vectors, smart pointers) or was measured (tensors).
namespace flare {

// A c10::intrusive_ptr<T> returned by value. Like the real class it travels through memory: a copy
// constructor, which nothing calls or defines, tells the compiler so. Holding one owns nothing.
struct ObjectRef {
  void* object = nullptr;
  ObjectRef() = default;
  ObjectRef(const ObjectRef&);
};

// std::vector<T>.
struct VectorRef {
  const char* begin;
  const char* end;
  const char* capacity;
};

// at::Tensor: one pointer.
struct TensorRef {
  const void* implementation;
};

// Sums the tensors of a call.
class Payload {
 public:
  void Add(const TensorRef* tensor) {
    DataType type;
    if (!ReadTensor(tensor->implementation, &bytes_, &type)) {
      known_ = false;
    } else if (type_ == DataType::kUnknown) {
      type_ = type;
    }
  }
  void Add(const VectorRef* tensors) {
    const auto* end = reinterpret_cast<const TensorRef*>(tensors->end);
    for (auto* t = reinterpret_cast<const TensorRef*>(tensors->begin); t != end; ++t) Add(t);
  }
  void AddLists(const VectorRef* lists) {
    const auto* end = reinterpret_cast<const VectorRef*>(lists->end);
    for (auto* list = reinterpret_cast<const VectorRef*>(lists->begin); list != end; ++list) {
      Add(list);
    }
  }
  void Fill(Call* call) const {
    if (known_) {
      call->bytes = bytes_;
      call->data_type = type_;
    } else {
      call->bytes = 0;
      call->flags |= kEventBytesUnknown;
    }
  }

 private:
  uint64_t bytes_ = 0;
  DataType type_ = DataType::kUnknown;
  bool known_ = true;
};

}  // namespace flare
