// SPDX-License-Identifier: Apache-2.0
#include "daemon/stacks/python_lines.h"

#include <cstddef>

namespace flare::daemon {
namespace {

constexpr int64_t kMaxLine = 10'000'000;

uint32_t Checked(int64_t line) {
  return line > 0 && line <= kMaxLine ? static_cast<uint32_t>(line) : 0;
}

// 3.11 on: entries that begin with a byte whose top bit is set: code (4 bits), length - 1 in code
// units of two bytes (3 bits); then bytes that depend on the code.
class LocationReader {
 public:
  explicit LocationReader(std::span<const uint8_t> table) : table_(table) {}
  bool AtEnd() const { return at_ >= table_.size(); }
  uint8_t Byte() { return at_ < table_.size() ? table_[at_++] : 0; }
  // Six bits a byte, least significant first; bit 6 says that more follow.
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 60; shift += 6) {
      const uint8_t byte = Byte();
      value |= uint64_t{byte & 0x3fu} << shift;
      if ((byte & 0x40) == 0) break;
    }
    return value;
  }
  int64_t SignedVarint() {
    const uint64_t value = Varint();
    const auto magnitude = static_cast<int64_t>(value >> 1);
    return (value & 1) != 0 ? -magnitude : magnitude;
  }
  void SkipToEntry() {
    while (at_ < table_.size() && (table_[at_] & 0x80) == 0) ++at_;
  }

 private:
  std::span<const uint8_t> table_;
  size_t at_ = 0;
};

uint32_t LineFromLocations(std::span<const uint8_t> table, int64_t line, int64_t offset) {
  constexpr int kNoColumns = 13, kLong = 14, kNone = 15, kOneLine = 10;
  LocationReader reader(table);
  int64_t end = 0;
  while (!reader.AtEnd()) {
    const uint8_t head = reader.Byte();
    if ((head & 0x80) == 0) return 0;
    const int code = head >> 3 & 0xf;
    end += ((head & 7) + 1) * 2;
    if (code == kNoColumns || code == kLong) {
      line += reader.SignedVarint();
    } else if (code >= kOneLine && code < kNoColumns) {
      line += code - kOneLine;
    }
    reader.SkipToEntry();
    if (offset < end) return code == kNone ? 0 : Checked(line);
  }
  return 0;
}

// 3.10: pairs (bytes, signed line change); -128 means no line for that range.
uint32_t LineFromPairs310(std::span<const uint8_t> table, int64_t line, int64_t offset) {
  int64_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto change = static_cast<int8_t>(table[i + 1]);
    end += table[i];
    if (change != -128) line += change;
    if (offset < end) return change == -128 ? 0 : Checked(line);
  }
  return 0;
}

// Up to 3.9: pairs (bytes, signed line change), the change taking effect after the bytes.
uint32_t LineFromLnotab(std::span<const uint8_t> table, int64_t line, int64_t offset) {
  int64_t at = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    at += table[i];
    if (at > offset) break;
    line += static_cast<int8_t>(table[i + 1]);
  }
  return Checked(line);
}

}  // namespace

uint32_t LineOfInstruction(PythonLayout::Lines format, std::span<const uint8_t> table,
                           int32_t first_line, int64_t offset) {
  if (offset < 0) return Checked(first_line);
  switch (format) {
    case PythonLayout::Lines::kTable311:
      return LineFromLocations(table, first_line, offset);
    case PythonLayout::Lines::kTable310:
      return LineFromPairs310(table, first_line, offset);
    case PythonLayout::Lines::kLnotab:
      return LineFromLnotab(table, first_line, offset);
  }
  return 0;
}

}  // namespace flare::daemon
