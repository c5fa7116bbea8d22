// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libflare/python/python_api.h"

// Learns where this PyTorch keeps the size and type of a tensor, from a few empty CPU tensors whose
// size and type we chose.
namespace flare::python {

enum class Calibration { kLater, kDone, kFailed };

// kLater while the program has something active that would see our tensors (a mode that intercepts
// operations, a profiler). Draws no random number. On kDone g_tensor_layout is known. Needs the
// GIL; leaves no exception pending.
Calibration CalibrateTensorLayout(Object* torch_module);

}  // namespace flare::python
