// SPDX-License-Identifier: Apache-2.0
#include "libflare/python/tensor_calibration.h"

#include <stddef.h>
#include <string.h>

#include "libflare/tensor_layout.h"

namespace flare::python {

namespace {

// Each number of elements differs from every size, stride and type number, so that it can be found
// in one place only; the first two are equal in number and differ in shape.
struct Probe {
  const char* type;
  uint16_t type_number;  // c10::ScalarType
  int sizes[3];
};
constexpr Probe kProbes[] = {
    {"float32", 6, {3, 5, 7}},   {"float64", 7, {7, 5, 3}}, {"int64", 4, {2, 3, 17}},
    {"bool", 11, {11, 13, 1}},   {"uint8", 0, {5, 29, 1}},  {"bfloat16", 15, {3, 3, 31}},
    {"float16", 5, {19, 23, 1}}, {"int32", 3, {2, 2, 97}},  {"int16", 2, {7, 41, 1}},
    {"int8", 1, {3, 47, 1}},
};
constexpr size_t kProbeCount = sizeof(kProbes) / sizeof(kProbes[0]);

// c10::TensorImpl has had 192 bytes or more; beyond that we look only as far as its page goes.
constexpr size_t kSurelyReadable = 192;
constexpr size_t kScanned = 256;
constexpr size_t kPage = 4096;

struct Sample {
  unsigned char bytes[kScanned];
  size_t size;
};

bool Active(Object* module, const char* function_name) {
  Object* function = module == nullptr ? nullptr : ModuleItem(module, function_name);
  if (function == nullptr) return false;
  Ref result(g_py.PyObject_CallObject(function, nullptr));
  const int active = result ? g_py.PyObject_IsTrue(result.get()) : 0;
  if (active < 0 || !result) g_py.PyErr_Clear();
  return active > 0;
}

// Whether the program would notice that we make tensors.
bool Observed() {
  Object* core = LoadedModule("torch._C");
  return Active(core, "_len_torch_dispatch_stack") || Active(core, "_len_torch_function_stack") ||
         Active(LoadedModule("torch.autograd"), "_profiler_enabled");
}

Ref MakeTensor(Object* torch_module, const Probe& probe) {
  Object* empty = ModuleItem(torch_module, "empty");
  Object* type = ModuleItem(torch_module, probe.type);
  Ref size0(g_py.PyLong_FromLong(probe.sizes[0]));
  Ref size1(g_py.PyLong_FromLong(probe.sizes[1]));
  Ref size2(g_py.PyLong_FromLong(probe.sizes[2]));
  Ref device(g_py.PyUnicode_FromString("cpu"));
  Ref options(g_py.PyDict_New());
  if (empty == nullptr || type == nullptr || !size0 || !size1 || !size2 || !device || !options) {
    return Ref();
  }
  Ref shape(g_py.PyTuple_Pack(3, size0.get(), size1.get(), size2.get()));
  Ref arguments(shape ? g_py.PyTuple_Pack(1, shape.get()) : nullptr);
  if (!arguments || g_py.PyDict_SetItemString(options.get(), "dtype", type) != 0 ||
      g_py.PyDict_SetItemString(options.get(), "device", device.get()) != 0) {
    return Ref();
  }
  return Ref(g_py.PyObject_Call(empty, arguments.get(), options.get()));
}

bool TakeSample(Object* tensor, Sample* sample) {
  Ref address(g_py.PyObject_GetAttrString(tensor, "_cdata"));
  if (!address || address.get()->type != g_py.PyLong_Type) return false;
  const auto value = static_cast<uintptr_t>(g_py.PyLong_AsUnsignedLongLong(address.get()));
  if (value == 0 || value % alignof(void*) != 0) return false;
  const size_t to_page_end = kPage - value % kPage;
  sample->size = to_page_end < kSurelyReadable ? kSurelyReadable
                 : to_page_end < kScanned      ? to_page_end
                                               : kScanned;
  memcpy(sample->bytes, reinterpret_cast<const void*>(value), sample->size);
  return true;
}

// The one offset at which every sample holds the integer its probe has. False when there is none,
// or more than one.
template <typename Int, typename Expected>
bool FindOffset(const Sample* samples, Expected expected, uint32_t* offset) {
  int found = 0;
  for (size_t at = 0; at + sizeof(Int) <= kScanned; at += sizeof(Int)) {
    bool all = true;
    for (size_t i = 0; i < kProbeCount && all; ++i) {
      Int value;
      memcpy(&value, samples[i].bytes + at, sizeof(value));
      all = at + sizeof(Int) <= samples[i].size && value == expected(kProbes[i]);
    }
    if (!all) continue;
    ++found;
    *offset = static_cast<uint32_t>(at);
  }
  return found == 1;
}

int64_t ElementCount(const Probe& probe) {
  return int64_t{probe.sizes[0]} * probe.sizes[1] * probe.sizes[2];
}

}  // namespace

Calibration CalibrateTensorLayout(Object* torch_module) {
  if (Observed()) return Calibration::kLater;
  Sample samples[kProbeCount] = {};
  for (size_t i = 0; i < kProbeCount; ++i) {
    Ref tensor = MakeTensor(torch_module, kProbes[i]);
    if (!tensor || !TakeSample(tensor.get(), &samples[i])) {
      g_py.PyErr_Clear();
      return Calibration::kFailed;
    }
  }
  uint32_t count_offset = 0;
  uint32_t type_offset = 0;
  if (!FindOffset<int64_t>(samples, ElementCount, &count_offset) ||
      !FindOffset<uint16_t>(
          samples, [](const Probe& probe) { return probe.type_number; }, &type_offset)) {
    return Calibration::kFailed;
  }
  g_tensor_layout.element_count_offset = count_offset;
  g_tensor_layout.scalar_type_offset = type_offset;
  g_tensor_layout.known.store(1, std::memory_order_release);
  return Calibration::kDone;
}

}  // namespace flare::python
