// SPDX-License-Identifier: Apache-2.0
#include "libflare/python/optimizer_steps.h"

#include "libflare/python/subclasses.h"
#include "libflare/python/targets.h"
#include "libflare/python/wrapper.h"
#include "libflare/recorder.h"

namespace flare::python {

namespace {

// An optimiser that stepped this often while the counting one did not takes over: a warm-up
// optimiser may be kept long after its last step. High enough for the several critic steps per
// generator step of an adversarial job.
constexpr int kTakeOverSteps = 64;

Object* g_counting = nullptr;   // weak reference to the optimiser that counts steps
Object* g_candidate = nullptr;  // address only: never followed
int g_candidate_steps = 0;
uint64_t g_steps = 0;

// Whether the weak reference still leads to `object` (true, true), to another (false, true), or
// nowhere (false, false).
struct Reached {
  bool same;
  bool alive;
};
Reached Reach(Object* weak, Object* object) {
  if (weak == nullptr) return {false, false};
  if (g_py.PyWeakref_GetRef != nullptr) {
    Object* target = nullptr;
    if (g_py.PyWeakref_GetRef(weak, &target) <= 0) return {false, false};
    Ref held(target);
    return {target == object, true};
  }
  Object* target = g_py.PyWeakref_GetObject(weak);
  return {target == object, target != nullptr && target != g_py._Py_NoneStruct};
}

void Count(Object* optimizer) {
  ErrorStash stash;
  Ref weak(g_py.PyWeakref_NewRef(optimizer, nullptr));
  if (!weak) return;  // cannot be referred to weakly: spans only
  Ref old(g_counting);
  g_counting = weak.release();
}

// True when `optimizer` is the one whose steps are counted.
bool Counts(Object* optimizer) {
  const Reached reached = Reach(g_counting, optimizer);
  if (!reached.same && reached.alive) {
    if (g_candidate != optimizer) {
      g_candidate = optimizer;
      g_candidate_steps = 0;
    }
    if (++g_candidate_steps < kTakeOverSteps) return false;
  }
  g_candidate = nullptr;
  if (!reached.same) Count(optimizer);
  return true;
}

void TraceStepOf(Object* type, Object* step) {
  Ref wrapper = Wrapped(step, {EventKind::kOptimizer, Role::kOptimizerStep, nullptr});
  if (wrapper && g_py.PyObject_SetAttrString(type, "step", wrapper.get()) != 0) g_py.PyErr_Clear();
}

}  // namespace

void NoteOptimizerStep(Object* optimizer) {
  if (optimizer == nullptr || !Counts(optimizer)) return;
  RecordStep();
  ++g_steps;
  if ((g_steps & (g_steps - 1)) == 0) AttachTargets();
}

void NoteOptimizerReady(Object* optimizer) {
  if (optimizer == nullptr) return;
  ErrorStash stash;
  // Most classes define step themselves; others take it from a class further up.
  Ref ancestors(g_py.PyObject_GetAttrString(optimizer->type, "__mro__"));
  if (ancestors && ancestors.get()->type == g_py.PyTuple_Type) {
    for (Ssize i = 0; i < g_py.PyTuple_Size(ancestors.get()); ++i) {
      Object* type = g_py.PyTuple_GetItem(ancestors.get(), i);
      Ref step = ClassItem(type, "step");
      if (!step) continue;
      TraceStepOf(type, step.get());
      break;
    }
  }
  AttachTargets();
}

void TraceKnownOptimizers(Object* optimizer_class) {
  ForEachSubclass(optimizer_class, [](Object* type) {
    Ref step = ClassItem(type, "step");
    if (!step) return;
    // The framework marks a step that it has put its own hook around. Wrapped before that, ours
    // would end up inside, and NoteOptimizerReady would wrap it a second time.
    Ref marked(g_py.PyObject_GetAttrString(step.get(), "hooked"));
    if (marked) {
      TraceStepOf(type, step.get());
    } else {
      g_py.PyErr_Clear();
    }
  });
}

}  // namespace flare::python
