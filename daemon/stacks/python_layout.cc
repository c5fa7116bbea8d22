// SPDX-License-Identifier: Apache-2.0
#include "daemon/stacks/python_layout.h"

#include <algorithm>
#include <cstring>

namespace flare::daemon {
namespace {

using Lines = PythonLayout::Lines;

constexpr PythonLayout kPython38 = {.runtime_interpreters_head = 32,
                                    .interpreter_threads_head = 8,
                                    .thread_next = 8,
                                    .thread_native_id = kNoOffset,
                                    .thread_cframe = kNoOffset,
                                    .current_frame = 24,
                                    .frame_previous = 24,
                                    .frame_code = 32,
                                    .frame_instruction = 104,
                                    .frame_owner = kNoOffset,
                                    .frame_bytes = 112,
                                    .code_filename = 104,
                                    .code_name = 112,
                                    .code_line_table = 120,
                                    .code_first_line = 40,
                                    .code_bytecode = kNoOffset,
                                    .code_bytes = 128,
                                    .unicode_ascii_size = 48,
                                    .unicode_compact_size = 72,
                                    .first_skipped_owner = 0xff,
                                    .lines = Lines::kLnotab};

constexpr PythonLayout Python39() { return kPython38; }

constexpr PythonLayout Python310() {
  PythonLayout l = kPython38;
  l.frame_instruction = 96;
  l.lines = Lines::kTable310;
  return l;
}

constexpr PythonLayout kPython311 = {.runtime_interpreters_head = 40,
                                     .interpreter_threads_head = 16,
                                     .thread_next = 8,
                                     .thread_native_id = 160,
                                     .thread_cframe = 56,
                                     .current_frame = 8,
                                     .frame_previous = 48,
                                     .frame_code = 32,
                                     .frame_instruction = 56,
                                     .frame_owner = 69,
                                     .frame_bytes = 72,
                                     .code_filename = 112,
                                     .code_name = 128,
                                     .code_line_table = 136,
                                     .code_first_line = 72,
                                     .code_bytecode = 184,
                                     .code_bytes = 144,
                                     .unicode_ascii_size = 48,
                                     .unicode_compact_size = 72,
                                     .first_skipped_owner = 3,
                                     .lines = Lines::kTable311};

constexpr PythonLayout Python312() {
  PythonLayout l = kPython311;
  l.interpreter_threads_head = 72;
  l.thread_native_id = 144;
  l.current_frame = 0;
  l.frame_previous = 8;
  l.frame_code = 0;
  l.frame_owner = 70;
  l.code_first_line = 68;
  l.code_bytecode = 192;
  l.unicode_ascii_size = 40;
  l.unicode_compact_size = 56;
  return l;
}

// The interpreter's own description is an array of 64-bit offsets; these are places in it.
struct DescriptionPlaces {
  size_t interpreters_head, threads_head, thread_next, current_frame, native_id;
  size_t frame_size, previous, executable, instruction, owner;
  size_t filename, qualname, line_table, first_line, bytecode;
};
constexpr DescriptionPlaces kPlaces313 = {5, 9, 21, 23, 25, 28, 29, 30, 31, 33, 35, 37, 38, 39, 43};
constexpr DescriptionPlaces kPlaces314 = {5, 9, 24, 26, 28, 31, 32, 33, 34, 36, 40, 42, 43, 44, 48};
constexpr size_t kDescriptionWords = 50;

std::optional<PythonLayout> ReadDescription(const RemoteMemory& memory, uint32_t version_hex,
                                            uint64_t runtime_address) {
  uint64_t words[kDescriptionWords];
  if (!memory.Read(runtime_address, words, sizeof(words))) return std::nullopt;
  if (std::memcmp(&words[0], "xdebugpy", 8) != 0) return std::nullopt;
  constexpr uint32_t kMinorMask = 0xffff0000;
  const bool free_threaded = words[2] != 0;
  if ((words[1] & kMinorMask) != (version_hex & kMinorMask) || free_threaded) return std::nullopt;
  const bool is_313 = (version_hex & kMinorMask) == 0x030d0000;
  const DescriptionPlaces& p = is_313 ? kPlaces313 : kPlaces314;
  // Offsets inside small structures are small; what is not means that we misread the table.
  const size_t used[] = {
      p.interpreters_head, p.threads_head, p.thread_next, p.current_frame, p.native_id,
      p.previous,          p.executable,   p.instruction, p.owner,         p.filename,
      p.qualname,          p.line_table,   p.first_line,  p.bytecode,      p.frame_size};
  for (const size_t place : used) {
    if (words[place] >=
        (place == p.threads_head || place == p.interpreters_head ? 32768u : 1024u)) {
      return std::nullopt;
    }
  }
  const auto at = [&](size_t place) { return static_cast<uint16_t>(words[place]); };
  PythonLayout l{};
  l.runtime_interpreters_head = at(p.interpreters_head);
  l.interpreter_threads_head = at(p.threads_head);
  l.thread_next = at(p.thread_next);
  l.thread_native_id = at(p.native_id);
  l.thread_cframe = kNoOffset;
  l.current_frame = at(p.current_frame);
  l.frame_previous = at(p.previous);
  l.frame_code = at(p.executable);
  l.frame_instruction = at(p.instruction);
  l.frame_owner = at(p.owner);
  l.frame_bytes = static_cast<uint16_t>(std::max(
      {l.frame_previous + 8, l.frame_code + 8, l.frame_instruction + 8, l.frame_owner + 1}));
  l.code_filename = at(p.filename);
  l.code_name = at(p.qualname);
  l.code_line_table = at(p.line_table);
  l.code_first_line = at(p.first_line);
  l.code_bytecode = at(p.bytecode);
  l.code_bytes = static_cast<uint16_t>(std::max(
      {l.code_filename + 8, l.code_name + 8, l.code_line_table + 8, l.code_first_line + 4}));
  l.unicode_ascii_size = 40;
  l.unicode_compact_size = 56;
  l.first_skipped_owner = 3;
  l.lines = Lines::kTable311;
  return l;
}

}  // namespace

std::optional<PythonLayout> FindPythonLayout(const RemoteMemory& memory, uint32_t version_hex,
                                             uint64_t runtime_address) {
  switch (version_hex >> 16) {
    case 0x0308:
      return kPython38;
    case 0x0309:
      return Python39();
    case 0x030a:
      return Python310();
    case 0x030b:
      return kPython311;
    case 0x030c:
      return Python312();
    case 0x030d:
    case 0x030e:
      return ReadDescription(memory, version_hex, runtime_address);
    default:
      return std::nullopt;
  }
}

}  // namespace flare::daemon
