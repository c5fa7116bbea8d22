// SPDX-License-Identifier: Apache-2.0
#include "daemon/clean_text.h"

#include <cstdint>

namespace flare::daemon {
namespace {

// Length of the UTF-8 sequence at `p`, 0 when it is none (overlong, surrogate, cut).
size_t SequenceLength(const unsigned char* p, size_t left) {
  if (p[0] < 0x80) return 1;
  size_t length = 0;
  uint32_t code = 0;
  if (p[0] >= 0xc2 && p[0] <= 0xdf) {
    length = 2;
    code = p[0] & 0x1fu;
  } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
    length = 3;
    code = p[0] & 0x0fu;
  } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
    length = 4;
    code = p[0] & 0x07u;
  }
  if (length == 0 || length > left) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((p[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (p[i] & 0x3fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  const bool control = code >= 0x80 && code < 0xa0;
  return overlong || surrogate || control || code > 0x10ffff ? 0 : length;
}

}  // namespace

std::string CleanText(const char* text, size_t capacity) {
  std::string clean;
  const unsigned char* p = reinterpret_cast<const unsigned char*>(text);
  for (size_t i = 0; i < capacity && p[i] != 0;) {
    const size_t length = SequenceLength(p + i, capacity - i);
    if (length == 0 || (length == 1 && (p[i] < 0x20 || p[i] == 0x7f))) {
      clean += '?';
      ++i;
    } else {
      clean.append(text + i, length);
      i += length;
    }
  }
  return clean;
}

}  // namespace flare::daemon
