// SPDX-License-Identifier: Apache-2.0
#include "libflare/python/subclasses.h"

namespace flare::python {

namespace {

constexpr int kMaxDepth = 32;  // far above any real tree; bounds our stack

void Visit(Object* subclasses_of, Object* type, void (*visit)(Object*), int depth) {
  Ref children(g_py.PyObject_CallFunctionObjArgs(subclasses_of, type, nullptr));
  if (!children || children.get()->type != g_py.PyList_Type) {
    g_py.PyErr_Clear();
    return;
  }
  for (Ssize i = 0; i < g_py.PyList_Size(children.get()); ++i) {
    Object* child = g_py.PyList_GetItem(children.get(), i);
    visit(child);
    if (depth < kMaxDepth) Visit(subclasses_of, child, visit, depth + 1);
  }
}

}  // namespace

void ForEachSubclass(Object* type, void (*visit)(Object*)) {
  // type.__subclasses__, not the class's own: a metaclass may have put another in its place.
  Ref subclasses_of(g_py.PyObject_GetAttrString(g_py.PyType_Type, "__subclasses__"));
  if (subclasses_of) Visit(subclasses_of.get(), type, visit, 0);
  g_py.PyErr_Clear();
}

}  // namespace flare::python
