// SPDX-License-Identifier: Apache-2.0
#include "libflare/python/wrapper.h"

#include "libflare/python/optimizer_steps.h"
#include "libflare/python/wrapper_type.h"
#include "libflare/recorder.h"

namespace flare::python {

namespace {

// Kinds that this thread is inside of. A subclass's step that calls super().step(), or a save that
// saves its parts, is one span: the outer one.
[[gnu::tls_model("initial-exec")]] thread_local uint32_t t_active_kinds = 0;

constexpr size_t kOffsetFlag = size_t{1}
                               << (8 * sizeof(size_t) - 1);  // vectorcall's spare-slot flag

// Arguments of a call in either of Python's two forms.
struct Arguments {
  Object* const* items = nullptr;
  size_t count_and_flag = 0;
  Object* names = nullptr;
  Object* tuple = nullptr;  // set for the second form
  Object* dict = nullptr;

  Object* Forward(const Wrapper* wrapper) const {
    if (tuple != nullptr) return g_py.PyObject_Call(wrapper->original, tuple, dict);
    return Vectorcall(wrapper->original, items, count_and_flag, names);
  }
  // The object a method is called on; null when there is none.
  Object* Self() const {
    if (tuple == nullptr)
      return (count_and_flag & ~kVectorcallOffsetFlag) == 0 ? nullptr : items[0];
    return g_py.PyTuple_Size(tuple) < 1 ? nullptr : g_py.PyTuple_GetItem(tuple, 0);
  }
};

// An iterator that ends is no failure.
bool EndedByError() { return g_py.PyErr_ExceptionMatches(*g_py.PyExc_StopIteration) == 0; }

Object* RecordSpan(const Wrapper* wrapper, const Arguments& arguments) {
  const uint32_t bit = 1u << static_cast<uint32_t>(wrapper->kind);
  const bool nests = wrapper->kind == EventKind::kUserCall;
  if (!nests) {
    if ((t_active_kinds & bit) != 0) return arguments.Forward(wrapper);
    t_active_kinds |= bit;
  }
  Call call;
  call.kind = wrapper->kind;
  call.name_id = wrapper->name_id;
  const CallToken token = BeginCall(call, __builtin_frame_address(0));
  Object* result = arguments.Forward(wrapper);
  if (result == nullptr && EndedByError()) call.flags |= kEventFailed;
  EndCall(token, call);
  if (!nests) t_active_kinds &= ~bit;
  if (result != nullptr && wrapper->role == Role::kOptimizerStep) {
    NoteOptimizerStep(arguments.Self());
  }
  return result;
}

Object* CallRecorded(const Wrapper* wrapper, const Arguments& arguments) {
  if (wrapper->role != Role::kOptimizerReady) return RecordSpan(wrapper, arguments);
  Object* result = arguments.Forward(wrapper);
  if (result != nullptr) NoteOptimizerReady(arguments.Self());
  return result;
}

// Wrappers by the function they stand for. Few, and kept for the life of the process.
constexpr int kMaxKnown = 512;
Object* g_known[kMaxKnown];
int g_known_count = 0;

Object* KnownWrapper(Object* original) {
  for (int i = 0; i < g_known_count; ++i) {
    if (reinterpret_cast<Wrapper*>(g_known[i])->original == original) return g_known[i];
  }
  return nullptr;
}

Ref WrapCallable(Object* original, const WrapperKind& kind) {
  if (IsWrapper(original) || g_py.PyCallable_Check(original) == 0 ||
      IsInstance(original, g_py.PyType_Type)) {
    return Ref();
  }
  if (Object* known = KnownWrapper(original)) return NewRef(known);
  if (g_known_count == kMaxKnown) return Ref();
  Ref wrapper = NewWrapper(original);
  if (!wrapper) return Ref();
  auto* w = reinterpret_cast<Wrapper*>(wrapper.get());
  w->kind = kind.kind;
  w->role = kind.role;
  w->name_id = kind.name == nullptr ? 0 : InternName(kind.name);
  g_known[g_known_count++] = NewRef(wrapper.get()).release();
  return wrapper;
}

}  // namespace

Object* CallWrapper(Object* self, Object* const* items, size_t count_and_flag, Object* names) {
  const auto* wrapper = reinterpret_cast<const Wrapper*>(self);
  if (!IsRecording()) {
    return Vectorcall(wrapper->original, items, count_and_flag, names);
  }
  Arguments arguments;
  arguments.items = items;
  arguments.count_and_flag = count_and_flag;
  arguments.names = names;
  return CallRecorded(wrapper, arguments);
}

Object* CallWrapperWithTuple(Object* self, Object* tuple, Object* dict) {
  const auto* wrapper = reinterpret_cast<const Wrapper*>(self);
  if (!IsRecording()) return g_py.PyObject_Call(wrapper->original, tuple, dict);
  Arguments arguments;
  arguments.tuple = tuple;
  arguments.dict = dict;
  return CallRecorded(wrapper, arguments);
}

Ref Wrapped(Object* value, const WrapperKind& kind) {
  const bool is_static = value->type == g_py.PyStaticMethod_Type;
  Ref result;
  if (is_static || value->type == g_py.PyClassMethod_Type) {
    Ref function(g_py.PyObject_GetAttrString(value, "__func__"));
    Ref wrapper = function ? WrapCallable(function.get(), kind) : Ref();
    if (wrapper) {
      result = Ref(g_py.PyObject_CallFunctionObjArgs(value->type, wrapper.get(), nullptr));
    }
  } else {
    result = WrapCallable(value, kind);
  }
  if (g_py.PyErr_Occurred() != nullptr) g_py.PyErr_Clear();
  return result;
}

}  // namespace flare::python
