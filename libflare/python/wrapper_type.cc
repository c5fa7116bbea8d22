// SPDX-License-Identifier: Apache-2.0
#include "libflare/python/wrapper_type.h"

#include <stddef.h>
#include <string.h>

namespace flare::python {

namespace {

// Numbers of CPython's stable ABI.
enum SlotId {
  kTpCall = 50,
  kTpClear = 51,
  kTpDealloc = 52,
  kTpDescrGet = 54,
  kTpGetattro = 58,
  kTpHash = 59,
  kTpMethods = 64,
  kTpNew = 65,
  kTpRepr = 66,
  kTpRichcompare = 67,
  kTpSetattro = 69,
  kTpTraverse = 71,
  kTpMembers = 72,
};
constexpr unsigned kHaveVectorcall = 1u << 11;
constexpr unsigned kHaveGc = 1u << 14;
constexpr unsigned kMethodDescriptor = 1u << 17;
constexpr unsigned kDefaultFlags = 1u << 18;  // as in 3.8; later versions ignore the bit
constexpr int kMemberSsize = 19;
constexpr int kMemberReadonly = 1;
constexpr int kMethodNoArgs = 0x4;
constexpr int kMethodOneArg = 0x8;
constexpr int kEqual = 2;
constexpr int kNotEqual = 3;

// Functions bind to the object they are looked up on, builtins do not. Python decides by type, so
// there are two.
Object* g_binding_type = nullptr;
Object* g_plain_type = nullptr;

Wrapper* Cast(Object* object) { return reinterpret_cast<Wrapper*>(object); }

// These belong to the wrapper: the function's own would call or pickle the function and leave the
// wrapper out.
bool IsOwnAttribute(const char* name) {
  return name != nullptr && name[0] == '_' && name[1] == '_' &&
         (strcmp(name, "__get__") == 0 || strcmp(name, "__call__") == 0 ||
          strcmp(name, "__reduce_ex__") == 0 || strcmp(name, "__reduce__") == 0);
}

Object* GetAttribute(Object* self, Object* name) {
  if (IsOwnAttribute(Text(name))) return g_py.PyObject_GenericGetAttr(self, name);
  return g_py.PyObject_GetAttr(Cast(self)->original, name);
}

int SetAttribute(Object* self, Object* name, Object* value) {
  return g_py.PyObject_SetAttr(Cast(self)->original, name, value);
}

Object* BindMethod(Object* self, Object* object, Object*) {
  if (object == nullptr || object == g_py._Py_NoneStruct) return NewRef(self).release();
  return g_py.PyMethod_New(self, object);
}

Object* Repr(Object* self) { return g_py.PyObject_Repr(Cast(self)->original); }

Ssize Hash(Object* self) { return g_py.PyObject_Hash(Cast(self)->original); }

// Equal to the function it stands for: a program may hold both, the one taken before we came.
Object* Compare(Object* self, Object* other, int operation) {
  if (operation != kEqual && operation != kNotEqual) {
    return NewRef(g_py._Py_NotImplementedStruct).release();
  }
  Object* right = IsWrapper(other) ? Cast(other)->original : other;
  return g_py.PyObject_RichCompare(Cast(self)->original, right, operation);
}

int Traverse(Object* self, VisitFn visit, void* argument) {
  Object* original = Cast(self)->original;
  return original == nullptr ? 0 : visit(original, argument);
}

// Nothing is cleared: the wrapper is always in the table of known ones, so it is never garbage, and
// a wrapper without its function could not be called.
int Clear(Object*) { return 0; }

void Deallocate(Object* self) {
  Object* type = self->type;
  g_py.PyObject_GC_UnTrack(self);
  if (Cast(self)->weak_refs != nullptr) g_py.PyObject_ClearWeakRefs(self);
  if (Cast(self)->original != nullptr) g_py.Py_DecRef(Cast(self)->original);
  g_py.PyObject_GC_Del(self);
  g_py.Py_DecRef(type);
}

Object* RefuseNew(Object*, Object*, Object*) {
  g_py.PyErr_SetString(*g_py.PyExc_TypeError, "cannot create 'function' instances");
  return nullptr;
}

Object* Directory(Object* self, Object*) { return g_py.PyObject_Dir(Cast(self)->original); }

// A function is pickled and copied as its name; other callables know best themselves.
Object* ReduceWith(Object* self, Object* protocol) {
  Object* original = Cast(self)->original;
  if (original->type == g_py.PyFunction_Type) {
    return g_py.PyObject_GetAttrString(original, "__qualname__");
  }
  Ref reduce(g_py.PyObject_GetAttrString(original, "__reduce_ex__"));
  return reduce ? g_py.PyObject_CallFunctionObjArgs(reduce.get(), protocol, nullptr) : nullptr;
}

Object* Reduce(Object* self, Object*) {
  Ref protocol(g_py.PyLong_FromLong(0));
  return protocol ? ReduceWith(self, protocol.get()) : nullptr;
}

MethodDef g_methods[] = {
    {"__dir__", Directory, kMethodNoArgs, nullptr},
    {"__reduce__", Reduce, kMethodNoArgs, nullptr},
    {"__reduce_ex__", ReduceWith, kMethodOneArg, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

MemberDef g_members[] = {
    {"__vectorcalloffset__", kMemberSsize, offsetof(Wrapper, vectorcall), kMemberReadonly, nullptr},
    {"__weaklistoffset__", kMemberSsize, offsetof(Wrapper, weak_refs), kMemberReadonly, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

template <typename Function>
void* Slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

// 3.8 has vectorcall but no way to ask for it here: there the call goes by tuple, and there are no
// weak references either.
bool HasTypeMembers() { return g_py.version_hex >= 0x03090000; }

Object* MakeType(bool binds) {
  TypeSlot slots[16];
  int count = 0;
  auto add = [&](SlotId id, void* function) { slots[count++] = {id, function}; };
  add(kTpCall, HasTypeMembers() ? Slot(g_py.PyVectorcall_Call) : Slot(CallWrapperWithTuple));
  add(kTpClear, Slot(Clear));
  add(kTpDealloc, Slot(Deallocate));
  if (binds) add(kTpDescrGet, Slot(BindMethod));
  add(kTpGetattro, Slot(GetAttribute));
  add(kTpHash, Slot(Hash));
  add(kTpMethods, g_methods);
  add(kTpNew, Slot(RefuseNew));
  add(kTpRepr, Slot(Repr));
  add(kTpRichcompare, Slot(Compare));
  add(kTpSetattro, Slot(SetAttribute));
  add(kTpTraverse, Slot(Traverse));
  if (HasTypeMembers()) add(kTpMembers, g_members);
  slots[count] = {0, nullptr};
  TypeSpec spec = {};
  spec.name = "flare.function";
  spec.basic_size = sizeof(Wrapper);
  spec.flags = kDefaultFlags | kHaveGc;
  if (binds) spec.flags |= kMethodDescriptor;
  if (HasTypeMembers()) spec.flags |= kHaveVectorcall;
  spec.slots = slots;
  return g_py.PyType_FromSpec(&spec);
}

// Whether looking the callable up on an object binds it.
bool Binds(Object* original) {
  if (original->type == g_py.PyFunction_Type) return true;
  Ref get(g_py.PyObject_GetAttrString(original->type, "__get__"));
  if (!get) g_py.PyErr_Clear();
  return static_cast<bool>(get);
}

}  // namespace

bool MakeWrapperTypes() {
  if (g_binding_type == nullptr) g_binding_type = MakeType(true);
  if (g_plain_type == nullptr && g_binding_type != nullptr) g_plain_type = MakeType(false);
  if (g_plain_type != nullptr) return true;
  g_py.PyErr_Clear();
  return false;
}

bool IsWrapper(Object* object) {
  return object->type == g_binding_type || object->type == g_plain_type;
}

Ref NewWrapper(Object* original) {
  Object* type = Binds(original) ? g_binding_type : g_plain_type;
  Ref made(g_py.PyType_GenericAlloc(type, 0));
  if (!made) return made;
  Wrapper* wrapper = Cast(made.get());
  wrapper->vectorcall = CallWrapper;
  wrapper->original = NewRef(original).release();
  return made;
}

}  // namespace flare::python
