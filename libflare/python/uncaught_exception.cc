// SPDX-License-Identifier: Apache-2.0
#include "libflare/python/uncaught_exception.h"

#include "libflare/recorder.h"

namespace flare::python {

namespace {

constexpr Ssize kValueArgument = 2;

bool IsPlainValue(Object* object) {
  return object == g_py._Py_NoneStruct || object->type == g_py.PyUnicode_Type ||
         object->type == g_py.PyLong_Type || object->type == g_py.PyFloat_Type;
}

// str(value) runs only C code when the class has a C __str__ and all arguments are plain.
bool TextIsSafe(Object* value) {
  Ref str(g_py.PyObject_GetAttrString(value->type, "__str__"));
  if (!str || str.get()->type != g_py.PyWrapperDescr_Type) return false;
  Ref arguments(g_py.PyObject_GetAttrString(value, "args"));
  if (!arguments || arguments.get()->type != g_py.PyTuple_Type) return false;
  for (Ssize i = 0; i < g_py.PyTuple_Size(arguments.get()); ++i) {
    if (!IsPlainValue(g_py.PyTuple_GetItem(arguments.get(), i))) return false;
  }
  return true;
}

}  // namespace

void RecordUncaughtException(Object* arguments) {
  if (!IsRecording() || g_py.PyTuple_Size(arguments) <= kValueArgument) return;
  ErrorStash stash;
  Object* value = g_py.PyTuple_GetItem(arguments, kValueArgument);
  if (value == nullptr || value == g_py._Py_NoneStruct) return;
  Ref name(g_py.PyObject_GetAttrString(value->type, "__name__"));
  const char* type_text = Text(name.get());
  Ref text(TextIsSafe(value) ? g_py.PyObject_Str(value) : nullptr);
  const char* value_text = Text(text.get());
  RecordException(type_text == nullptr ? "exception" : type_text,
                  value_text == nullptr ? "" : value_text);
}

}  // namespace flare::python
