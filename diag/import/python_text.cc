// SPDX-License-Identifier: Apache-2.0
#include "diag/import/python_text.h"

#include <charconv>
#include <cstdint>

namespace flare::import {
namespace {

void AppendUtf8(uint32_t code, std::string* text) {
  if (code < 0x80) {
    text->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    text->push_back(static_cast<char>(0xc0 | code >> 6));
    text->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else if (code < 0x10000) {
    text->push_back(static_cast<char>(0xe0 | code >> 12));
    text->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3f)));
    text->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else {
    text->push_back(static_cast<char>(0xf0 | code >> 18));
    text->push_back(static_cast<char>(0x80 | (code >> 12 & 0x3f)));
    text->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3f)));
    text->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  }
}

}  // namespace

std::string UnescapePython(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const char next = text.size() > 1 ? text[1] : '\0';
    if (text[0] != '\\' || next == '\0') {
      plain.push_back(text[0]);
      text.remove_prefix(1);
      continue;
    }
    const size_t digits = next == 'x' ? 2 : next == 'u' ? 4 : next == 'U' ? 8 : 0;
    uint32_t code = 0;
    if (digits > 0 && text.size() >= 2 + digits) {
      const char* const end = text.data() + 2 + digits;
      const auto parsed = std::from_chars(text.data() + 2, end, code, 16);
      if (parsed.ec == std::errc() && parsed.ptr == end && code <= 0x10ffff) {
        AppendUtf8(code, &plain);
        text.remove_prefix(2 + digits);
        continue;
      }
    }
    constexpr std::string_view kLetters = "nrt\\'\"", kMeanings = "\n\r\t\\'\"";
    const size_t known = kLetters.find(next);
    if (known == std::string_view::npos) plain.push_back('\\');
    plain.push_back(known == std::string_view::npos ? next : kMeanings[known]);
    text.remove_prefix(2);
  }
  return plain;
}

}  // namespace flare::import
