// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libflare/python/python_api.h"

// Optimisers: whose `step` is traced, and which of them marks the end of a training step.
//
// A job may have several optimisers; the first one seen stepping counts the steps. When it is gone,
// or others step long without it, the next one takes its place. Everything here needs the GIL, and
// leaves a pending exception as it is.
namespace flare::python {

// An optimiser's step has returned: a step boundary when it is the one that counts.
void NoteOptimizerStep(Object* optimizer);

// An optimiser has been made or restored: traces the step of its class. Not before, since the
// framework itself replaces that method while it makes the first one.
void NoteOptimizerReady(Object* optimizer);

// Traces the steps of those known subclasses that have had an instance already.
void TraceKnownOptimizers(Object* optimizer_class);

}  // namespace flare::python
