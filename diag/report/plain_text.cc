// SPDX-License-Identifier: Apache-2.0
#include "diag/report/plain_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace flare::diag {
namespace {

struct Decoded {
  uint32_t code_point = 0;
  size_t bytes = 0;  // 0 = not valid UTF-8
};

// Decodes one code point; rejects overlong forms, surrogates and values above U+10FFFF.
Decoded DecodeUtf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  size_t length = 0;
  uint32_t value = 0;
  uint32_t smallest = 0;
  if ((first & 0xe0) == 0xc0) {
    length = 2, value = first & 0x1f, smallest = 0x80;
  } else if ((first & 0xf0) == 0xe0) {
    length = 3, value = first & 0x0f, smallest = 0x800;
  } else if ((first & 0xf8) == 0xf0) {
    length = 4, value = first & 0x07, smallest = 0x10000;
  }
  if (length == 0 || text.size() < length) return {};
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3f);
  }
  if (value < smallest || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return {};
  return {value, length};
}

// Characters that move the cursor, hide text or reorder it.
bool IsUnsafe(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c ||
         (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
         (c >= 0xe0000 && c <= 0xe007f);
}

std::string Escape(uint32_t c) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  char out[16];
  std::snprintf(out, sizeof(out), c < 0x100 ? "\\x%02x" : "\\u%04x", c);
  return out;
}

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Bytes of the first `columns` code points.
size_t PrefixBytes(std::string_view text, size_t columns) {
  size_t i = 0;
  while (i < text.size() && columns > 0) {
    ++i;
    while (i < text.size() && Continues(text[i])) ++i;
    --columns;
  }
  return i;
}

std::tm UtcParts(uint64_t unix_ns) {
  const std::time_t seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return parts;
}

std::string TwoUnits(uint64_t high, const char* high_unit, uint64_t low, const char* low_unit) {
  std::string text = std::to_string(high) + " " + high_unit;
  if (low != 0) text += " " + std::to_string(low) + " " + low_unit;
  return text;
}

}  // namespace

std::string Printable(std::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "...";
    const Decoded decoded = DecodeUtf8(text);
    if (decoded.bytes == 0) {
      out += Escape(static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    if (IsUnsafe(decoded.code_point)) {
      out += Escape(decoded.code_point);
    } else {
      out.append(text.substr(0, decoded.bytes));
    }
    text.remove_prefix(decoded.bytes);
  }
  return out;
}

size_t Columns(std::string_view printable) {
  return printable.size() -
         static_cast<size_t>(std::count_if(printable.begin(), printable.end(), Continues));
}

std::string Shorten(std::string_view printable, size_t columns) {
  if (Columns(printable) <= columns) return std::string(printable);
  if (columns <= 3) return std::string(printable.substr(0, PrefixBytes(printable, columns)));
  return std::string(printable.substr(0, PrefixBytes(printable, columns - 3))) + "...";
}

std::vector<std::string> Wrap(std::string_view printable, size_t columns) {
  columns = std::max<size_t>(columns, 8);
  std::vector<std::string> lines;
  while (Columns(printable) > columns) {
    const size_t full = PrefixBytes(printable, columns);
    size_t end = printable[full] == ' ' ? full : printable.rfind(' ', full - 1);
    if (end == std::string_view::npos || end == 0) end = full;
    lines.emplace_back(printable.substr(0, end));
    printable.remove_prefix(end);
    while (!printable.empty() && printable.front() == ' ') printable.remove_prefix(1);
  }
  if (!printable.empty() || lines.empty()) lines.emplace_back(printable);
  return lines;
}

std::string RankList(std::vector<uint32_t> ranks, size_t max_ranges) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string out;
  size_t ranges = 0;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!out.empty()) out += ", ";
    if (ranges++ == max_ranges) return out + "... (" + std::to_string(ranks.size()) + " in all)";
    out += std::to_string(ranks[i]);
    if (last > i) out += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return out;
}

std::string DurationWords(uint64_t duration_ns) {
  const uint64_t seconds = duration_ns / 1'000'000'000;
  if (seconds < 1) return std::to_string(duration_ns / 1'000'000) + " ms";
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600) return TwoUnits(seconds / 60, "min", seconds % 60, "s");
  if (seconds < 86400) return TwoUnits(seconds / 3600, "h", seconds % 3600 / 60, "min");
  return TwoUnits(seconds / 86400, "d", seconds % 86400 / 3600, "h");
}

std::string StepTime(double seconds) {
  if (seconds < 0.1) return Number(seconds * 1e3) + " ms";
  return Number(seconds) + " s";
}

std::string UtcMillis(uint64_t unix_ns) {
  const std::tm t = UtcParts(unix_ns);
  char out[80];
  std::snprintf(out, sizeof(out), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", t.tm_year + 1900,
                t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec,
                static_cast<int>(unix_ns / 1'000'000 % 1000));
  return out;
}

std::string UtcSeconds(uint64_t unix_ns) {
  const std::tm t = UtcParts(unix_ns);
  char out[80];
  std::snprintf(out, sizeof(out), "%04d-%02d-%02d %02d:%02d:%02d UTC", t.tm_year + 1900,
                t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec);
  return out;
}

std::string Number(double value) {
  if (!std::isfinite(value)) return "unknown";
  const double size = std::fabs(value);
  char out[48];
  if (size >= 1e15 || (size > 0 && size < 1e-4)) {
    std::snprintf(out, sizeof(out), "%.3g", value);
  } else if (size >= 100) {
    std::snprintf(out, sizeof(out), "%.0f", value);
  } else {
    std::snprintf(out, sizeof(out), "%.3g", value);
  }
  return out;
}

std::string Counted(uint64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace flare::diag
