// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/stacks/remote_memory.h"

// Where the fields of CPython's structures lie, per version, for reading them from outside.
//
// 3.8 to 3.12 come from a table (offsets compiled from each version's public headers; they are
// fixed within a minor version on 64-bit Linux), 3.13 and 3.14 from the description that the
// interpreter itself keeps at the start of _PyRuntime. Free-threaded builds are not known.
namespace flare::daemon {

inline constexpr uint16_t kNoOffset = 0xffff;

struct PythonLayout {
  enum class Lines { kTable310, kTable311, kLnotab };  // format of the line table

  uint16_t runtime_interpreters_head;
  uint16_t interpreter_threads_head;
  uint16_t thread_next;
  uint16_t thread_native_id;  // kNoOffset before 3.11: the last thread in the list is the first
  // thread -> current frame; up to 3.12 by way of a C frame, else thread_cframe is kNoOffset.
  uint16_t thread_cframe;
  uint16_t current_frame;  // in the C frame, or in the thread
  uint16_t frame_previous;
  uint16_t frame_code;
  uint16_t frame_instruction;  // a pointer (3.11 on) or the 4-byte f_lasti
  uint16_t frame_owner;        // kNoOffset before 3.11
  uint16_t frame_bytes;        // read of each frame
  uint16_t code_filename, code_name, code_line_table, code_first_line;
  uint16_t code_bytecode;       // kNoOffset before 3.11
  uint16_t code_bytes;          // read of each code object
  uint16_t unicode_ascii_size;  // header of an ASCII string
  uint16_t unicode_compact_size;
  uint8_t first_skipped_owner;  // frames with this owner or a higher one are not Python code
  Lines lines;
};

inline constexpr uint16_t kObjectType = 8;      // PyObject.ob_type
inline constexpr uint16_t kVarObjectSize = 16;  // PyVarObject.ob_size
inline constexpr uint16_t kBytesData = 32;      // PyBytesObject.ob_sval
inline constexpr uint16_t kUnicodeLength = 16;
inline constexpr uint16_t kUnicodeState = 32;

// Nothing when the version is not known. `runtime_address` is needed from 3.13 on.
std::optional<PythonLayout> FindPythonLayout(const RemoteMemory& memory, uint32_t version_hex,
                                             uint64_t runtime_address);

}  // namespace flare::daemon
