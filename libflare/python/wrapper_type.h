// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "libflare/core/event.h"
#include "libflare/python/python_api.h"
#include "libflare/python/wrapper.h"

// How a wrapper looks to Python: its two types and what they delegate to the wrapped function.
// Internal to wrapper.cc.
namespace flare::python {

struct Wrapper {
  Object head;
  VectorcallFn vectorcall;
  Object* original;   // never null once made
  Object* weak_refs;  // from 3.9
  uint32_t name_id;
  EventKind kind;
  Role role;
};

// A new wrapper that calls `original` and records nothing sensible yet; empty and an exception when
// there is no memory.
Ref NewWrapper(Object* original);

// The two ways Python calls it (wrapper.cc).
Object* CallWrapper(Object* self, Object* const* items, size_t count_and_flag, Object* names);
Object* CallWrapperWithTuple(Object* self, Object* tuple, Object* dict);

}  // namespace flare::python
