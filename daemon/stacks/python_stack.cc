// SPDX-License-Identifier: Apache-2.0
#include "daemon/stacks/python_stack.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "daemon/clean_text.h"
#include "daemon/stacks/python_layout.h"
#include "daemon/stacks/python_lines.h"
#include "daemon/stacks/remote_memory.h"

namespace flare::daemon {
namespace {

constexpr int kMaxThreads = 4096;
constexpr int kTries = 3;
constexpr size_t kMaxTextBytes = 512;
constexpr uint64_t kMaxTableBytes = 1 << 16;

// One link of the chain, as addresses only.
struct Link {
  uint64_t frame = 0;
  uint64_t code = 0;
  uint64_t instruction = 0;
  bool same_place(const Link& other) const { return frame == other.frame && code == other.code; }
};

class StackReader {
 public:
  StackReader(const RemoteMemory& memory, const PythonLayout& layout)
      : memory_(memory), layout_(layout) {}

  uint64_t FindMainThread(uint64_t runtime_address, int32_t main_tid) const;
  // Innermost first; nothing when the chain does not end properly.
  std::optional<std::vector<Link>> ReadChain(uint64_t thread_state) const;
  std::optional<PythonFrame> Describe(const Link& link, uint64_t* code_type) const;

 private:
  std::string ReadUnicode(uint64_t address) const;
  uint32_t ReadLine(uint64_t table, int32_t first_line, int64_t offset) const;

  const RemoteMemory& memory_;
  const PythonLayout& layout_;
};

template <typename T>
T Pick(const unsigned char* copy, size_t offset) {
  T value;
  std::memcpy(&value, copy + offset, sizeof(T));
  return value;
}

uint64_t StackReader::FindMainThread(uint64_t runtime, int32_t main_tid) const {
  if (runtime == 0) return 0;
  const auto interpreter = memory_.Value<uint64_t>(runtime + layout_.runtime_interpreters_head);
  if (!interpreter || *interpreter == 0) return 0;
  auto thread = memory_.Value<uint64_t>(*interpreter + layout_.interpreter_threads_head);
  uint64_t last = 0;
  for (int i = 0; i < kMaxThreads && thread && *thread != 0; ++i) {
    if (layout_.thread_native_id != kNoOffset) {
      const auto tid = memory_.Value<uint64_t>(*thread + layout_.thread_native_id);
      if (tid && *tid == static_cast<uint64_t>(main_tid)) return *thread;
    }
    last = *thread;
    thread = memory_.Value<uint64_t>(*thread + layout_.thread_next);
  }
  // New threads are put in front, so the oldest is the last. Where threads carry their kernel id
  // and none matched, we know better than to guess.
  return layout_.thread_native_id == kNoOffset ? last : 0;
}

std::optional<std::vector<Link>> StackReader::ReadChain(uint64_t thread_state) const {
  uint64_t holder = thread_state;
  if (layout_.thread_cframe != kNoOffset) {
    const auto cframe = memory_.Value<uint64_t>(thread_state + layout_.thread_cframe);
    if (!cframe || *cframe == 0) return std::nullopt;
    holder = *cframe;
  }
  const auto current = memory_.Value<uint64_t>(holder + layout_.current_frame);
  if (!current) return std::nullopt;
  std::vector<Link> chain;
  unsigned char copy[1024];
  uint64_t frame = *current;
  for (int i = 0; frame != 0; ++i) {
    if (i >= 4 * kMaxFrames || frame % 8 != 0) return std::nullopt;
    if (!memory_.Read(frame, copy, layout_.frame_bytes)) return std::nullopt;
    Link link;
    link.frame = frame;
    // The low bits of a reference are tags from 3.14 on and zero before.
    link.code = Pick<uint64_t>(copy, layout_.frame_code) & ~uint64_t{3};
    bool python_code = true;
    if (layout_.frame_owner != kNoOffset) {
      python_code = copy[layout_.frame_owner] < layout_.first_skipped_owner;
      link.instruction = Pick<uint64_t>(copy, layout_.frame_instruction);
    } else {
      link.instruction =
          static_cast<uint64_t>(int64_t{Pick<int32_t>(copy, layout_.frame_instruction)});
    }
    if (python_code && link.code == 0) return std::nullopt;
    if (python_code && chain.size() < kMaxFrames) chain.push_back(link);
    frame = Pick<uint64_t>(copy, layout_.frame_previous);
  }
  return chain;
}

std::string StackReader::ReadUnicode(uint64_t address) const {
  unsigned char head[64];
  if (!memory_.Read(address, head, layout_.unicode_ascii_size)) return {};
  const auto length = Pick<uint64_t>(head, kUnicodeLength);
  auto state = Pick<uint32_t>(head, kUnicodeState);
  // Up to 3.13: interned 2 bits, kind 3, compact 1, ASCII 1. 3.14 keeps 16 bits for "interned".
  if ((state >> 2 & 7) == 0) state >>= 14;
  const uint32_t kind = state >> 2 & 7;
  const bool compact = (state >> 5 & 1) != 0;
  const bool ascii = (state >> 6 & 1) != 0;
  if (!compact || (kind != 1 && kind != 2 && kind != 4)) return {};
  if (length == 0 || length > 1u << 20) return {};
  const size_t characters = std::min<size_t>(length, kMaxTextBytes);
  unsigned char data[kMaxTextBytes * 4];
  const uint64_t start =
      address + (ascii ? layout_.unicode_ascii_size : layout_.unicode_compact_size);
  if (!memory_.Read(start, data, characters * kind)) return {};
  if (ascii) return CleanText(reinterpret_cast<const char*>(data), characters);
  std::string text;
  for (size_t i = 0; i < characters; ++i) {
    uint32_t c = data[i * kind];
    if (kind == 2) c = Pick<uint16_t>(data, i * 2);
    if (kind == 4) c = Pick<uint32_t>(data, i * 4);
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
    } else if (c < 0x10000) {
      text += {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3f)),
               static_cast<char>(0x80 | (c & 0x3f))};
    } else if (c < 0x110000) {
      text += {static_cast<char>(0xf0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3f)),
               static_cast<char>(0x80 | (c >> 6 & 0x3f)), static_cast<char>(0x80 | (c & 0x3f))};
    }
  }
  return CleanText(text.data(), text.size());
}

uint32_t StackReader::ReadLine(uint64_t table, int32_t first_line, int64_t offset) const {
  const auto length = memory_.Value<uint64_t>(table + kVarObjectSize);
  if (!length || *length > kMaxTableBytes) return 0;
  std::vector<uint8_t> bytes(*length);
  if (!bytes.empty() && !memory_.Read(table + kBytesData, bytes.data(), bytes.size())) return 0;
  return LineOfInstruction(layout_.lines, bytes, first_line, offset);
}

std::optional<PythonFrame> StackReader::Describe(const Link& link, uint64_t* code_type) const {
  unsigned char code[1024];
  if (!memory_.Read(link.code, code, layout_.code_bytes)) return std::nullopt;
  // We do not know where the type of code objects lies, but there is only one.
  const auto type = Pick<uint64_t>(code, kObjectType);
  if (*code_type == 0) *code_type = type;
  if (type == 0 || type != *code_type) return std::nullopt;
  PythonFrame frame;
  frame.function = ReadUnicode(Pick<uint64_t>(code, layout_.code_name));
  frame.file = ReadUnicode(Pick<uint64_t>(code, layout_.code_filename));
  if (frame.function.empty() || frame.file.empty()) return std::nullopt;
  const auto first_line = Pick<int32_t>(code, layout_.code_first_line);
  auto offset = static_cast<int64_t>(link.instruction);
  if (layout_.code_bytecode != kNoOffset) {
    offset = static_cast<int64_t>(link.instruction - (link.code + layout_.code_bytecode));
  } else if (layout_.lines == PythonLayout::Lines::kTable310) {
    offset *= 2;  // f_lasti counts instructions there, bytes before
  }
  frame.line = ReadLine(Pick<uint64_t>(code, layout_.code_line_table), first_line, offset);
  return frame;
}

// The outer part that both chains have in common, taken from the second.
std::vector<Link> CommonOuterPart(const std::vector<Link>& first, const std::vector<Link>& second) {
  size_t common = 0;
  while (common < first.size() && common < second.size() &&
         first[first.size() - 1 - common].same_place(second[second.size() - 1 - common])) {
    ++common;
  }
  return {second.end() - static_cast<ptrdiff_t>(common), second.end()};
}

}  // namespace

std::vector<PythonFrame> ReadPythonStack(const PythonProcess& process) {
  if (process.pid <= 0) return {};
  const RemoteMemory memory(process.pid);
  const auto layout = FindPythonLayout(memory, process.version_hex, process.runtime_address);
  if (!layout) return {};
  const StackReader reader(memory, *layout);
  uint64_t thread_state = process.main_thread_state;
  if (thread_state == 0) {
    thread_state = reader.FindMainThread(process.runtime_address, process.main_tid);
  }
  if (thread_state == 0 || thread_state % 8 != 0) return {};

  std::vector<Link> best;
  for (int i = 0; i < kTries; ++i) {
    const auto first = reader.ReadChain(thread_state);
    const auto second = reader.ReadChain(thread_state);
    if (!first || !second) continue;
    std::vector<Link> common = CommonOuterPart(*first, *second);
    const bool all = common.size() == first->size() && common.size() == second->size();
    if (common.size() > best.size()) best = std::move(common);
    if (all) break;
  }
  std::vector<PythonFrame> stack;
  uint64_t code_type = 0;
  // From the outside in: where something makes no sense, the certain part ends.
  for (size_t i = best.size(); i-- > 0;) {
    auto frame = reader.Describe(best[i], &code_type);
    if (!frame) break;
    stack.push_back(std::move(*frame));
  }
  std::reverse(stack.begin(), stack.end());
  return stack;
}

}  // namespace flare::daemon
