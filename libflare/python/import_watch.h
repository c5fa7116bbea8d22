// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libflare/python/python_api.h"

// Says when the import of a module is complete, before the statement after it runs.
//
// Python raises no event then, but it clears a mark on the module's spec. While it is watched, that
// one spec object is of a class of ours, derived from its own, that sees the mark cleared and gives
// the object its own class back. Everything here needs the GIL.
namespace flare::python {

// Calls `on_complete` once when the import of the module with this spec ends, well or not. False
// when it cannot be watched (a spec of an unusual class); then nothing has changed. True also when
// it is being watched already. Leaves no exception pending.
bool WatchImport(Object* spec, void (*on_complete)());

}  // namespace flare::python
