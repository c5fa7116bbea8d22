// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// The C API of whatever CPython this process runs, found by name at run time, so that one libflare
// serves 3.8 to 3.14 and no Python header is needed to build it.
//
// Members carry the names of the C API; every rule about threads, references and pending exceptions
// is CPython's. LoadApi() may be called by any thread, once; afterwards the table does not change.
namespace flare::python {

using Ssize = intptr_t;
struct ThreadState;
struct Interpreter;

// Head of every Python object in a default build. LoadApi() refuses builds that differ
// (free-threaded, reference tracing).
struct Object {
  Ssize refcount;
  Object* type;
};

using VectorcallFn = Object* (*)(Object*, Object* const*, size_t, Object*);
using CFunction = Object* (*)(Object*, Object*);
using VisitFn = int (*)(Object*, void*);
using AuditHookFn = int (*)(const char*, Object*, void*);

struct MethodDef {
  const char* name;
  CFunction function;
  int flags;
  const char* doc;
};
struct MemberDef {
  const char* name;
  int type;
  Ssize offset;
  int flags;
  const char* doc;
};
struct TypeSlot {
  int slot;
  void* function;
};
struct TypeSpec {
  const char* name;
  int basic_size;
  int item_size;
  unsigned int flags;
  TypeSlot* slots;
};

// X(return type, name, parameters): without one of these the Python part stays off.
#define FLARE_PYTHON_REQUIRED(X)                                  \
  X(const char*, Py_GetVersion, ())                               \
  X(void, Py_IncRef, (Object*))                                   \
  X(void, Py_DecRef, (Object*))                                   \
  X(int, Py_AddPendingCall, (int (*)(void*), void*))              \
  X(Interpreter*, PyInterpreterState_Main, ())                    \
  X(Object*, PySys_GetObject, (const char*))                      \
  X(void, PyErr_Fetch, (Object**, Object**, Object**))            \
  X(void, PyErr_Restore, (Object*, Object*, Object*))             \
  X(void, PyErr_Clear, ())                                        \
  X(Object*, PyErr_Occurred, ())                                  \
  X(int, PyErr_ExceptionMatches, (Object*))                       \
  X(void, PyErr_SetString, (Object*, const char*))                \
  X(Object*, PyObject_GetAttr, (Object*, Object*))                \
  X(Object*, PyObject_GetAttrString, (Object*, const char*))      \
  X(Object*, PyObject_GenericGetAttr, (Object*, Object*))         \
  X(int, PyObject_SetAttr, (Object*, Object*, Object*))           \
  X(int, PyObject_SetAttrString, (Object*, const char*, Object*)) \
  X(int, PyObject_GenericSetAttr, (Object*, Object*, Object*))    \
  X(Object*, PyObject_GetItem, (Object*, Object*))                \
  X(Object*, PyObject_Call, (Object*, Object*, Object*))          \
  X(Object*, PyObject_CallObject, (Object*, Object*))             \
  X(Object*, PyObject_CallFunctionObjArgs, (Object*, ...))        \
  X(Object*, PyObject_Dir, (Object*))                             \
  X(Object*, PyObject_Repr, (Object*))                            \
  X(Object*, PyObject_Str, (Object*))                             \
  X(Object*, PyObject_RichCompare, (Object*, Object*, int))       \
  X(Ssize, PyObject_Hash, (Object*))                              \
  X(int, PyObject_IsTrue, (Object*))                              \
  X(void, PyObject_ClearWeakRefs, (Object*))                      \
  X(void, PyObject_GC_UnTrack, (void*))                           \
  X(void, PyObject_GC_Del, (void*))                               \
  X(int, PyCallable_Check, (Object*))                             \
  X(Object*, PyType_FromSpec, (TypeSpec*))                        \
  X(Object*, PyType_FromSpecWithBases, (TypeSpec*, Object*))      \
  X(Object*, PyType_GenericAlloc, (Object*, Ssize))               \
  X(int, PyType_IsSubtype, (Object*, Object*))                    \
  X(Object*, PyVectorcall_Call, (Object*, Object*, Object*))      \
  X(Object*, PyMethod_New, (Object*, Object*))                    \
  X(Object*, PyCFunction_NewEx, (MethodDef*, Object*, Object*))   \
  X(Object*, PyModule_GetDict, (Object*))                         \
  X(Object*, PyDict_New, ())                                      \
  X(Object*, PyDict_GetItemString, (Object*, const char*))        \
  X(int, PyDict_SetItem, (Object*, Object*, Object*))             \
  X(int, PyDict_SetItemString, (Object*, const char*, Object*))   \
  X(Object*, PyTuple_Pack, (Ssize, ...))                          \
  X(Object*, PyTuple_New, (Ssize))                                \
  X(int, PyTuple_SetItem, (Object*, Ssize, Object*))              \
  X(Ssize, PyTuple_Size, (Object*))                               \
  X(Object*, PyTuple_GetItem, (Object*, Ssize))                   \
  X(Ssize, PyList_Size, (Object*))                                \
  X(Object*, PyList_GetItem, (Object*, Ssize))                    \
  X(int, PyList_Append, (Object*, Object*))                       \
  X(Object*, PyUnicode_FromString, (const char*))                 \
  X(const char*, PyUnicode_AsUTF8AndSize, (Object*, Ssize*))      \
  X(Object*, PyLong_FromLong, (long))                             \
  X(long, PyLong_AsLong, (Object*))                               \
  X(unsigned long long, PyLong_AsUnsignedLongLong, (Object*))     \
  X(Object*, PyWeakref_NewRef, (Object*, Object*))

// Null where this version lacks them; whoever uses them has another way.
#define FLARE_PYTHON_OPTIONAL(X)                                                 \
  X(Object*, PyObject_Vectorcall, (Object*, Object* const*, size_t, Object*))    \
  X(Object*, _PyFunction_Vectorcall, (Object*, Object* const*, size_t, Object*)) \
  X(ThreadState*, _PyThreadState_UncheckedGet, ())                               \
  X(ThreadState*, PyThreadState_GetUnchecked, ())                                \
  X(Interpreter*, PyInterpreterState_Get, ())                                    \
  X(Interpreter*, _PyInterpreterState_Get, ())                                   \
  X(int, PyWeakref_GetRef, (Object*, Object**))                                  \
  X(Object*, PyWeakref_GetObject, (Object*))

// Type objects and singletons: the symbol is the object.
#define FLARE_PYTHON_OBJECTS(X)                                                                    \
  X(PyBaseObject_Type)                                                                             \
  X(PyType_Type)                                                                                   \
  X(PyFunction_Type)                                                                               \
  X(PyModule_Type) X(PyUnicode_Type) X(PyTuple_Type) X(PyList_Type) X(PyLong_Type) X(PyFloat_Type) \
      X(PyDict_Type) X(PyStaticMethod_Type) X(PyClassMethod_Type) X(PyWrapperDescr_Type)           \
          X(_Py_NoneStruct) X(_Py_NotImplementedStruct)

// Exceptions: the symbol is a pointer to the object.
#define FLARE_PYTHON_EXCEPTIONS(X) X(PyExc_TypeError) X(PyExc_StopIteration)

struct Api {
#define FLARE_X(result, name, parameters) result(*name) parameters;
  FLARE_PYTHON_REQUIRED(FLARE_X)
  FLARE_PYTHON_OPTIONAL(FLARE_X)
#undef FLARE_X
#define FLARE_X(name) Object* name;
  FLARE_PYTHON_OBJECTS(FLARE_X)
#undef FLARE_X
#define FLARE_X(name) Object** name;
  FLARE_PYTHON_EXCEPTIONS(FLARE_X)
#undef FLARE_X
  uint64_t runtime_address;  // &_PyRuntime, 0 unknown
  uint32_t version_hex;      // as PY_VERSION_HEX
};

extern Api g_py;

// Fills g_py. False when a required symbol is missing or this is no version or build we know; then
// nothing else in this folder may be used. Needs the GIL.
bool LoadApi();

// Holds back an exception that is on its way while other Python code runs, and errno with it.
class ErrorStash {
 public:
  ErrorStash();
  ~ErrorStash();
  ErrorStash(const ErrorStash&) = delete;
  ErrorStash& operator=(const ErrorStash&) = delete;

 private:
  int errno_;
  Object* type_ = nullptr;
  Object* value_ = nullptr;
  Object* traceback_ = nullptr;
};

// Owns one reference.
class Ref {
 public:
  explicit Ref(Object* owned = nullptr) : object_(owned) {}
  Ref(Ref&& other) : object_(other.object_) { other.object_ = nullptr; }
  Ref& operator=(Ref&& other) {
    Object* old = object_;
    object_ = other.object_;
    other.object_ = nullptr;
    if (old != nullptr) g_py.Py_DecRef(old);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) g_py.Py_DecRef(object_);
  }
  Object* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  Object* release() {
    Object* object = object_;
    object_ = nullptr;
    return object;
  }

 private:
  Object* object_;
};

inline Ref NewRef(Object* borrowed) {
  g_py.Py_IncRef(borrowed);
  return Ref(borrowed);
}

inline bool IsInstance(Object* object, Object* type) {
  return object->type == type || g_py.PyType_IsSubtype(object->type, type) != 0;
}

// The text of an exact str, else null. Valid as long as the str lives.
const char* Text(Object* object);

// sys.modules[name] when it is a module; borrowed, null otherwise. Runs no Python code.
Object* LoadedModule(const char* name);

// A module's own attribute, without asking its __getattr__; borrowed.
Object* ModuleItem(Object* module, const char* name);

// What a class's own __dict__ holds under `name`, unbound; empty when it holds nothing.
Ref ClassItem(Object* type, const char* name);

// PyObject_Vectorcall, also where that is not exported (3.9, 3.10).
Object* Vectorcall(Object* callable, Object* const* items, size_t count_and_flag, Object* names);

// The bit of count_and_flag that lends the callee the place before the first argument.
inline constexpr size_t kVectorcallOffsetFlag = size_t{1} << (8 * sizeof(size_t) - 1);

// Thread state of the caller, null when it holds no GIL.
ThreadState* CurrentThreadState();
bool InMainInterpreter();

}  // namespace flare::python
