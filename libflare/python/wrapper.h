// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "libflare/core/event.h"
#include "libflare/python/python_api.h"

// The callable put in a function's place: records a span, and is otherwise the function.
//
// Calls, results, exceptions and tracebacks pass through unchanged; attributes, signature,
// equality, hash, repr, pickle and copy are the function's own, and isinstance() takes it for one.
// Only type() tells the difference. When nothing is recorded it forwards at the cost of one branch
// and one call. Everything here needs the GIL.
namespace flare::python {

enum class Role : uint8_t {
  kSpan,            // records a span
  kOptimizerStep,   // records a span, and may end a training step
  kOptimizerReady,  // records nothing; an optimiser has been made or restored when it returns
};

struct WrapperKind {
  EventKind kind = EventKind::kNone;
  Role role = Role::kSpan;
  const char* name = nullptr;  // interned for kUserCall
};

// Makes the types. Once, before anything else here. False when Python refuses.
bool MakeWrapperTypes();

bool IsWrapper(Object* object);

// What stands for `value` where a module or class holds it: a wrapper for a callable, a
// staticmethod or classmethod around a wrapper, empty for anything that must not be wrapped
// (classes, wrappers, properties). The same function always gets the same wrapper, so that names
// for it stay one object. Leaves no exception pending.
Ref Wrapped(Object* value, const WrapperKind& kind);

}  // namespace flare::python
