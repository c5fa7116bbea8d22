// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libflare/python/python_api.h"

// Garbage collections as spans: a callback at the end of gc.callbacks.
namespace flare::python {

// False when `gc_module` has no list of callbacks. Call once, with the GIL; leaves no exception
// pending.
bool AddGcCallback(Object* gc_module);

}  // namespace flare::python
