// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

// The Python frames of the main thread of another process, read from its memory.
//
// The process is not stopped, takes no part and holds no lock for it; its memory changes while we
// read. So the chain of frames is read twice and only what was equal both times is believed: the
// outer part is then certain, frames that came and went are left out. Empty when unsure.
// At most kMaxFrames frames. Safe from any thread; keeps no state.
namespace flare::daemon {

struct PythonFrame {
  std::string function;
  std::string file;
  uint32_t line = 0;  // 0 unknown
};

// What the process said of its interpreter. 0 = unknown.
struct PythonProcess {
  pid_t pid = 0;                   // as we see it
  int32_t main_tid = 0;            // as the process sees it
  uint32_t version_hex = 0;        // PY_VERSION_HEX
  uint64_t runtime_address = 0;    // &_PyRuntime
  uint64_t main_thread_state = 0;  // PyThreadState*; else found by way of the runtime
};

inline constexpr int kMaxFrames = 256;

// Innermost first.
std::vector<PythonFrame> ReadPythonStack(const PythonProcess& process);

}  // namespace flare::daemon
