// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Builds a text in a fixed buffer without allocating: what does not fit is cut, and the buffer
// always ends in zero. Safe in signal handlers and before the C library is fully up.
namespace flare {

class BoundedText {
 public:
  template <size_t N>
  explicit BoundedText(char (&buffer)[N]) : BoundedText(buffer, N) {}
  BoundedText(char* buffer, size_t size) : buffer_(buffer), capacity_(size - 1) {
    buffer_[0] = '\0';
  }

  BoundedText& Add(const char* text) {
    while (*text != '\0') AddChar(*text++);
    return *this;
  }
  BoundedText& AddChar(char c) {
    if (length_ < capacity_) {
      buffer_[length_++] = c;
      buffer_[length_] = '\0';
    } else {
      cut_ = true;
    }
    return *this;
  }
  BoundedText& AddNumber(uint64_t value, unsigned base = 10) {
    char digits[20];
    int count = 0;
    do {
      digits[count++] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0 && count < 20);
    while (count > 0) AddChar(digits[--count]);
    return *this;
  }
  // Letters, digits, '-' and '_' as they are, anything else as '_': fit for a file name.
  BoundedText& AddSanitised(const char* text) {
    for (; *text != '\0'; ++text) {
      const char c = *text;
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '-' || c == '_';
      AddChar(plain ? c : '_');
    }
    return *this;
  }

  bool cut() const { return cut_; }
  size_t length() const { return length_; }

 private:
  char* buffer_;
  size_t capacity_;
  size_t length_ = 0;
  bool cut_ = false;
};

}  // namespace flare
