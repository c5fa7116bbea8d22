// SPDX-License-Identifier: Apache-2.0
#include "libflare/python/import_watch.h"

#include <string.h>

namespace flare::python {

namespace {

constexpr int kTpSetattro = 69;  // the stable ABI's number
constexpr unsigned kDefaultFlags = 1u << 18;

Object* g_spec_type = nullptr;     // importlib's ModuleSpec
Object* g_watched_type = nullptr;  // ours, derived from it
void (*g_on_complete)() = nullptr;

int SetAttribute(Object* spec, Object* name, Object* value) {
  const int result = g_py.PyObject_GenericSetAttr(spec, name, value);
  const char* attribute = Text(name);
  if (result != 0 || value == nullptr || attribute == nullptr ||
      strcmp(attribute, "_initializing") != 0 || g_py.PyObject_IsTrue(value) != 0) {
    return result;
  }
  {
    ErrorStash stash;
    g_py.PyObject_SetAttrString(spec, "__class__", g_spec_type);
  }
  g_on_complete();
  return 0;
}

// Both types. Once.
bool MakeTypes() {
  Object* bootstrap = LoadedModule("_frozen_importlib");
  Object* spec_type = bootstrap == nullptr ? nullptr : ModuleItem(bootstrap, "ModuleSpec");
  if (spec_type == nullptr || !IsInstance(spec_type, g_py.PyType_Type)) return false;
  Ref bases(g_py.PyTuple_Pack(1, spec_type));
  if (!bases) return false;
  TypeSlot slots[] = {{kTpSetattro, reinterpret_cast<void*>(SetAttribute)}, {0, nullptr}};
  TypeSpec description = {};
  description.name = "_frozen_importlib.ModuleSpec";  // what repr() and error messages show
  description.flags = kDefaultFlags;
  description.slots = slots;
  Ref watched(g_py.PyType_FromSpecWithBases(&description, bases.get()));
  if (!watched) return false;
  g_spec_type = NewRef(spec_type).release();
  g_watched_type = watched.release();
  return true;
}

}  // namespace

bool WatchImport(Object* spec, void (*on_complete)()) {
  ErrorStash stash;
  if (g_watched_type == nullptr && !MakeTypes()) return false;
  g_on_complete = on_complete;
  if (spec->type == g_watched_type) return true;
  if (spec->type != g_spec_type) return false;
  return g_py.PyObject_SetAttrString(spec, "__class__", g_watched_type) == 0;
}

}  // namespace flare::python
