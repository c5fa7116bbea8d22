// SPDX-License-Identifier: Apache-2.0
#pragma once

// One line per event of libflare's own life, appended to the file named by FLARE_LOG; nothing when
// it is not set. Never stdout or stderr: those belong to the program. Slow paths only; keeps errno.
namespace flare {

void DebugLog(const char* text, const char* detail);

}  // namespace flare
