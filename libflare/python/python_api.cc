// SPDX-License-Identifier: Apache-2.0
#include "libflare/python/python_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

namespace flare::python {

constinit Api g_py = {};

namespace {

constexpr uint32_t kOldest = 0x03080000;
constexpr uint32_t kNewestMinor = 0x030e0000;  // 3.14; later ones may change what we rely on

// "3.11.2 (main, ...)" to 0x030b02f0. 0 when it reads otherwise.
uint32_t ParseVersion(const char* text) {
  uint32_t part[3] = {0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    if (*text < '0' || *text > '9') return 0;
    while (*text >= '0' && *text <= '9' && part[i] < 256) {
      part[i] = part[i] * 10 + static_cast<uint32_t>(*text++ - '0');
    }
    if (i < 2 && *text++ != '.') return 0;
  }
  uint32_t level = 0xf;
  if (*text == 'a') level = 0xa;
  if (*text == 'b') level = 0xb;
  if (*text == 'r') level = 0xc;
  return part[0] << 24 | part[1] << 16 | part[2] << 8 | level << 4;
}

// Free-threaded and reference-tracing builds have a longer head; all our structures assume two
// words.
bool ObjectHeadIsTwoWords() {
  Ref size(g_py.PyObject_GetAttrString(g_py.PyBaseObject_Type, "__basicsize__"));
  if (!size) {
    g_py.PyErr_Clear();
    return false;
  }
  return g_py.PyLong_AsLong(size.get()) == static_cast<long>(sizeof(Object));
}

bool FindSymbols() {
  bool complete = true;
#define FLARE_X(result, name, parameters)                                         \
  g_py.name = reinterpret_cast<result(*) parameters>(dlsym(RTLD_DEFAULT, #name)); \
  complete = complete && g_py.name != nullptr;
  FLARE_PYTHON_REQUIRED(FLARE_X)
#undef FLARE_X
#define FLARE_X(result, name, parameters) \
  g_py.name = reinterpret_cast<result(*) parameters>(dlsym(RTLD_DEFAULT, #name));
  FLARE_PYTHON_OPTIONAL(FLARE_X)
#undef FLARE_X
#define FLARE_X(name)                                           \
  g_py.name = static_cast<Object*>(dlsym(RTLD_DEFAULT, #name)); \
  complete = complete && g_py.name != nullptr;
  FLARE_PYTHON_OBJECTS(FLARE_X)
#undef FLARE_X
#define FLARE_X(name)                                            \
  g_py.name = static_cast<Object**>(dlsym(RTLD_DEFAULT, #name)); \
  complete = complete && g_py.name != nullptr;
  FLARE_PYTHON_EXCEPTIONS(FLARE_X)
#undef FLARE_X
  g_py.runtime_address = reinterpret_cast<uint64_t>(dlsym(RTLD_DEFAULT, "_PyRuntime"));
  complete = complete && (g_py.PyWeakref_GetRef != nullptr || g_py.PyWeakref_GetObject != nullptr);
  return complete;
}

}  // namespace

bool LoadApi() {
  if (!FindSymbols()) return false;
  g_py.version_hex = ParseVersion(g_py.Py_GetVersion());
  if (g_py.version_hex < kOldest || g_py.version_hex > (kNewestMinor | 0xffff)) return false;
  return ObjectHeadIsTwoWords();
}

ErrorStash::ErrorStash() : errno_(errno) { g_py.PyErr_Fetch(&type_, &value_, &traceback_); }

ErrorStash::~ErrorStash() {
  g_py.PyErr_Restore(type_, value_, traceback_);  // also drops what went wrong meanwhile
  errno = errno_;
}

const char* Text(Object* object) {
  if (object == nullptr || object->type != g_py.PyUnicode_Type) return nullptr;
  const char* text = g_py.PyUnicode_AsUTF8AndSize(object, nullptr);
  if (text == nullptr) g_py.PyErr_Clear();  // a lone surrogate
  return text;
}

Object* LoadedModule(const char* name) {
  // Not PyImport_GetModuleDict: it ends the process when the interpreter is being taken down.
  Object* modules = g_py.PySys_GetObject("modules");
  if (modules == nullptr || !IsInstance(modules, g_py.PyDict_Type)) return nullptr;
  Object* module = g_py.PyDict_GetItemString(modules, name);
  if (module == nullptr || !IsInstance(module, g_py.PyModule_Type)) return nullptr;
  return module;
}

Object* ModuleItem(Object* module, const char* name) {
  Object* dict = g_py.PyModule_GetDict(module);
  return dict == nullptr ? nullptr : g_py.PyDict_GetItemString(dict, name);
}

Ref ClassItem(Object* type, const char* name) {
  Ref dict(g_py.PyObject_GetAttrString(type, "__dict__"));
  Ref key(g_py.PyUnicode_FromString(name));
  Ref item(dict && key ? g_py.PyObject_GetItem(dict.get(), key.get()) : nullptr);
  if (!item) g_py.PyErr_Clear();
  return item;
}

namespace {

// The slow form: a tuple of the plain arguments and a dict of the named ones.
Object* CallWithTuple(Object* callable, Object* const* items, size_t count, Object* names) {
  Ref tuple(g_py.PyTuple_New(static_cast<Ssize>(count)));
  Ref dict(g_py.PyDict_New());
  if (!tuple || !dict) return nullptr;
  for (size_t i = 0; i < count; ++i) {
    g_py.PyTuple_SetItem(tuple.get(), static_cast<Ssize>(i), NewRef(items[i]).release());
  }
  const Ssize named = names == nullptr ? 0 : g_py.PyTuple_Size(names);
  for (Ssize i = 0; i < named; ++i) {
    if (g_py.PyDict_SetItem(dict.get(), g_py.PyTuple_GetItem(names, i), items[count + i]) != 0) {
      return nullptr;
    }
  }
  return g_py.PyObject_Call(callable, tuple.get(), named == 0 ? nullptr : dict.get());
}

}  // namespace

Object* Vectorcall(Object* callable, Object* const* items, size_t count_and_flag, Object* names) {
  if (__builtin_expect(g_py.PyObject_Vectorcall != nullptr, 1)) {
    return g_py.PyObject_Vectorcall(callable, items, count_and_flag, names);
  }
  if (callable->type == g_py.PyFunction_Type && g_py._PyFunction_Vectorcall != nullptr) {
    return g_py._PyFunction_Vectorcall(callable, items, count_and_flag, names);
  }
  return CallWithTuple(callable, items, count_and_flag & ~kVectorcallOffsetFlag, names);
}

ThreadState* CurrentThreadState() {
  if (g_py.PyThreadState_GetUnchecked != nullptr) return g_py.PyThreadState_GetUnchecked();
  if (g_py._PyThreadState_UncheckedGet != nullptr) return g_py._PyThreadState_UncheckedGet();
  return nullptr;
}

bool InMainInterpreter() {
  if (CurrentThreadState() == nullptr) return false;
  auto* current = g_py.PyInterpreterState_Get != nullptr ? g_py.PyInterpreterState_Get
                                                         : g_py._PyInterpreterState_Get;
  return current != nullptr && current() == g_py.PyInterpreterState_Main();
}

}  // namespace flare::python
