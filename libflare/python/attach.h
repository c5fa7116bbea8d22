// SPDX-License-Identifier: Apache-2.0
#pragma once

// Gets libflare's Python part into the interpreter of this process, if it has one.
namespace flare::python {

// To be called once by the library's constructor, before the program starts and so before the
// interpreter does. Without CPython 3.8 or later among the loaded libraries it does nothing.
//
// What follows happens in an audit hook, with the GIL: when the program first imports torch the
// process is woken (recorder.h), and from then on functions are wrapped as their modules come.
// Helper processes that Python starts on its own account (spawned workers, compile workers) are
// left alone.
void StartPython();

}  // namespace flare::python
