// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libflare/python/python_api.h"

// The classes below a class, as far as they exist now.
namespace flare::python {

// Calls `visit` for each class below `type`, children after their parent; a class with two such
// parents is visited twice. Needs the GIL; leaves no exception pending.
void ForEachSubclass(Object* type, void (*visit)(Object* type));

}  // namespace flare::python
