// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libflare/python/python_api.h"

// The exception that ends the program, kept in the black box.
namespace flare::python {

// `arguments` are those of the audit event sys.excepthook. Needs the GIL; runs no code of the
// program: where the text could only be had by that, only the type is kept.
void RecordUncaughtException(Object* arguments);

}  // namespace flare::python
