// SPDX-License-Identifier: Apache-2.0
#include "libflare/python/gc_callback.h"

#include <errno.h>
#include <string.h>

#include "libflare/recorder.h"

namespace flare::python {

namespace {

constexpr int kMethodVarArgs = 0x1;

// One collection runs at a time, on one thread, start to stop.
constinit CallToken g_token;
constinit Call g_call;

uint64_t Generation(Object* info) {
  if (info == nullptr || info->type != g_py.PyDict_Type) return 0;
  Object* value = g_py.PyDict_GetItemString(info, "generation");
  if (value == nullptr || value->type != g_py.PyLong_Type) return 0;
  return static_cast<uint64_t>(g_py.PyLong_AsLong(value));
}

Object* OnCollection(Object*, Object* arguments) {
  if (IsRecording() && g_py.PyTuple_Size(arguments) == 2) {
    const char* phase = Text(g_py.PyTuple_GetItem(arguments, 0));
    if (phase != nullptr && strcmp(phase, "start") == 0) {
      g_call = Call();
      g_call.kind = EventKind::kGc;
      g_call.sequence = Generation(g_py.PyTuple_GetItem(arguments, 1));
      g_token = BeginCall(g_call, __builtin_frame_address(0));
    } else if (phase != nullptr && strcmp(phase, "stop") == 0) {
      EndCall(g_token, g_call);
      g_token = CallToken();
    }
  }
  return NewRef(g_py._Py_NoneStruct).release();
}

MethodDef g_method = {"flare_gc_callback", OnCollection, kMethodVarArgs, nullptr};

}  // namespace

bool AddGcCallback(Object* gc_module) {
  Object* callbacks = ModuleItem(gc_module, "callbacks");
  if (callbacks == nullptr || callbacks->type != g_py.PyList_Type) return false;
  Ref callback(g_py.PyCFunction_NewEx(&g_method, nullptr, nullptr));
  const bool added = callback && g_py.PyList_Append(callbacks, callback.get()) == 0;
  if (!added) g_py.PyErr_Clear();
  return added;
}

}  // namespace flare::python
