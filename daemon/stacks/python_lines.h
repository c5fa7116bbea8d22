// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "daemon/stacks/python_layout.h"

// Line numbers from the tables that CPython keeps with its code objects.
//
// Pure functions over bytes of another process: any input is safe; one that makes no sense gives 0.
namespace flare::daemon {

// Line of the instruction at `offset` (in bytes from the start of the bytecode), 0 unknown.
uint32_t LineOfInstruction(PythonLayout::Lines format, std::span<const uint8_t> table,
                           int32_t first_line, int64_t offset);

}  // namespace flare::daemon
