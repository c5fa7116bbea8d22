// SPDX-License-Identifier: Apache-2.0
#include "libflare/python/targets.h"

#include <stdio.h>
#include <string.h>

#include "libflare/python/api_list.h"
#include "libflare/python/gc_callback.h"
#include "libflare/python/import_watch.h"
#include "libflare/python/optimizer_steps.h"
#include "libflare/python/python_api.h"
#include "libflare/python/subclasses.h"
#include "libflare/python/tensor_calibration.h"
#include "libflare/python/wrapper.h"
#include "libflare/recorder.h"

namespace flare::python {

int g_passes_left = 0;

namespace {

// After the program begins to import a module of ours, how many signs of life may pass without it
// before we wait for the next import instead: an import that fails must not cost for ever.
constexpr int kPatience = 1000;
constexpr int kMaxTargets = kMaxUserTargets + 32;
constexpr int kNameBytes = 256;

bool g_settled[kMaxTargets];  // attached, or found not to exist
bool g_busy = false;

enum class Readiness {
  kAbsent,
  kImporting,  // and we shall be told when that ends
  kUnwatched,  // importing, and we have to look again
  kReady,
};

Readiness ReadinessOf(const char* module_name) {
  Object* module = LoadedModule(module_name);
  if (module == nullptr) return Readiness::kAbsent;
  Object* spec = ModuleItem(module, "__spec__");
  if (spec == nullptr || spec == g_py._Py_NoneStruct) return Readiness::kReady;
  Ref initializing(g_py.PyObject_GetAttrString(spec, "_initializing"));
  const int is_importing = initializing ? g_py.PyObject_IsTrue(initializing.get()) : 0;
  g_py.PyErr_Clear();
  if (is_importing <= 0) return Readiness::kReady;
  return WatchImport(spec, AttachTargets) ? Readiness::kImporting : Readiness::kUnwatched;
}

bool IsInTorch(const char* module_name) { return strncmp(module_name, "torch.", 6) == 0; }

// The object on which the last part of a path is looked up, and that part's name.
struct Place {
  Object* owner = nullptr;  // a module or a class; borrowed from its module
  const char* name = nullptr;
};

Place FindPlace(Object* module, const char* path, char (&buffer)[kNameBytes], Ref* holder) {
  Place place{module, path};
  if (strlen(path) >= kNameBytes) return Place();
  strcpy(buffer, path);
  char* part = buffer;
  while (char* at = strchr(part, '@')) {
    *at = '\0';
    Ref next = place.owner == module ? Ref() : ClassItem(place.owner, part);
    Object* found = place.owner == module ? ModuleItem(module, part) : next.get();
    if (found == nullptr || !IsInstance(found, g_py.PyType_Type)) return Place();
    *holder = NewRef(found);
    place.owner = found;
    part = at + 1;
  }
  place.name = part;
  return place;
}

// What the owner has under the name, also when a class has it from one further up.
Ref CurrentValue(const Place& place, Object* module) {
  if (place.owner == module) {
    Object* item = ModuleItem(module, place.name);
    return item == nullptr ? Ref() : NewRef(item);
  }
  Ref ancestors(g_py.PyObject_GetAttrString(place.owner, "__mro__"));
  if (!ancestors || ancestors.get()->type != g_py.PyTuple_Type) {
    g_py.PyErr_Clear();
    return Ref();
  }
  for (Ssize i = 0; i < g_py.PyTuple_Size(ancestors.get()); ++i) {
    Ref item = ClassItem(g_py.PyTuple_GetItem(ancestors.get(), i), place.name);
    if (item) return item;
  }
  return Ref();
}

void Replace(Object* owner, const char* name, Object* value, const WrapperKind& kind) {
  Ref wrapper = Wrapped(value, kind);
  if (wrapper && g_py.PyObject_SetAttrString(owner, name, wrapper.get()) != 0) g_py.PyErr_Clear();
}

// The method and kind whose overriders are being visited; ForEachSubclass takes a bare function.
const char* g_visited_name;
const WrapperKind* g_visited_kind;

void ReplaceInSubclass(Object* type) {
  Ref own = ClassItem(type, g_visited_name);
  if (own) Replace(type, g_visited_name, own.get(), *g_visited_kind);
}

// False when there is no such function (yet).
bool AttachFunction(Object* module, const Target& target) {
  char buffer[kNameBytes];
  Ref holder;
  const Place place = FindPlace(module, target.path, buffer, &holder);
  if (place.name == nullptr) return false;
  Ref value = CurrentValue(place, module);
  if (!value) return false;
  Replace(place.owner, place.name, value.get(), target.kind);
  if (target.action == Action::kWrapWithSubclasses) {
    g_visited_name = place.name;
    g_visited_kind = &target.kind;
    ForEachSubclass(place.owner, ReplaceInSubclass);
  } else if (target.action == Action::kOptimizers) {
    TraceKnownOptimizers(place.owner);
  }
  return true;
}

// False when it has to be tried again.
bool AttachTorchFacts(Object* torch) {
  Object* version = ModuleItem(torch, "__version__");  // a class derived from str
  if (version != nullptr && IsInstance(version, g_py.PyUnicode_Type)) {
    const char* text = g_py.PyUnicode_AsUTF8AndSize(version, nullptr);
    char framework[64];
    if (text != nullptr && snprintf(framework, sizeof(framework), "torch %s", text) > 0) {
      SetFramework(framework);
    }
    g_py.PyErr_Clear();
  }
  const Calibration calibration = CalibrateTensorLayout(torch);
  if (calibration == Calibration::kLater) return false;
  SetPartState(Part::kTensorLayout,
               calibration == Calibration::kDone ? PartState::kActive : PartState::kUnsupported);
  return true;
}

// False when it has to be tried again.
bool Attach(const Target& target) {
  Object* module = LoadedModule(target.module);
  if (module == nullptr) return false;
  switch (target.action) {
    case Action::kTorchFacts:
      return AttachTorchFacts(module);
    case Action::kGcCallback:
      AddGcCallback(module);
      return true;
    default:
      break;
  }
  // A script's functions come one by one while it runs; another module's are there or will not be.
  return AttachFunction(module, target) || strcmp(target.module, "__main__") != 0;
}

// One look at everything not settled; *progress: something is attached or about to be. Returns
// whether a module is in an import whose end we shall not be told of.
bool Pass(bool* progress) {
  const Readiness torch = ReadinessOf("torch");
  bool unwatched = torch == Readiness::kUnwatched;
  *progress = torch == Readiness::kImporting;
  for (int i = 0; i < TargetCount() && i < kMaxTargets; ++i) {
    if (g_settled[i]) continue;
    const Target& target = TargetAt(i);
    // Parts of torch are left alone until all of it is there.
    if (IsInTorch(target.module) && torch != Readiness::kReady) continue;
    const Readiness readiness = ReadinessOf(target.module);
    unwatched = unwatched || readiness == Readiness::kUnwatched;
    if (readiness == Readiness::kImporting) *progress = true;
    if (readiness != Readiness::kReady) continue;
    g_settled[i] = Attach(target);
    *progress = *progress || g_settled[i];
  }
  return unwatched;
}

}  // namespace

void NoteImport(const char* module) {
  for (int i = 0; i < TargetCount() && i < kMaxTargets; ++i) {
    if (!g_settled[i] && strcmp(TargetAt(i).module, module) == 0) g_passes_left = kPatience;
  }
}

void AttachTargets() {
  if (g_busy || !IsRecording() || !InMainInterpreter()) return;
  g_busy = true;
  {
    ErrorStash stash;
    bool progress;
    if (Pass(&progress)) {
      g_passes_left = kPatience;
    } else if (progress || g_passes_left == 0) {
      g_passes_left = 0;
    } else {
      --g_passes_left;
    }
  }
  g_busy = false;
}

}  // namespace flare::python
