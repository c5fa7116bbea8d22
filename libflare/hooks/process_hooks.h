// SPDX-License-Identifier: Apache-2.0
#pragma once

// How the process ends: _exit, _Exit, quick_exit and exec leave their trace in the header and are
// then carried out. exit() is seen by a handler that waking registers (wake.cc).
namespace flare {

// Looks the real functions up, at load: later may be a vfork child, where nothing is safe.
void FindProcessFunctions();

}  // namespace flare
