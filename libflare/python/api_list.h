// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "libflare/python/wrapper.h"

// The one list of what is traced in Python: our own entries, then those of FLARE_PYTHON_API.
namespace flare::python {

enum class Action : uint8_t {
  kWrap,                // the function
  kWrapWithSubclasses,  // the method, also where classes below override it
  kOptimizers,          // the method, and the steps of optimisers that exist already
  kTorchFacts,          // version and tensor layout
  kGcCallback,
};

struct Target {
  const char* module;
  const char* path;  // "function" or "Class@function", classes may nest
  Action action;
  WrapperKind kind;
};

inline constexpr int kMaxUserTargets = 64;
inline constexpr int kUserTextBytes = 4096;

// Copies the text of FLARE_PYTHON_API, "module@Class@function,module@function,...". Entries that do
// not read like that are left out, so are those past kMaxUserTargets or kUserTextBytes. Allocates
// nothing. Call once, before the other functions here; null means none.
void ReadUserTargets(const char* text);

int TargetCount();
const Target& TargetAt(int index);

}  // namespace flare::python
