// SPDX-License-Identifier: Apache-2.0
#pragma once

// Puts the entries of api_list.h in place as their modules come.
//
// A module is touched once it is fully imported, never earlier and never imported by us. What the
// program does not import costs it nothing. Everything here needs the GIL, does nothing while
// nothing is recorded (so never in a forked child), and leaves a pending exception as it is.
namespace flare::python {

// Whether a module that we want is on its way, so that any sign of life should lead to
// AttachTargets(). A plain load.
extern int g_passes_left;
inline bool ExpectsModules() { return g_passes_left > 0; }

// The program is about to import `module`.
void NoteImport(const char* module);

// Attaches whatever has become ready.
void AttachTargets();

}  // namespace flare::python
