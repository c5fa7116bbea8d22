// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Taking lines of text apart. Pure; nothing here depends on the locale.
namespace flare::import {

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsSpace(char c) { return c == ' ' || c == '\t'; }

inline std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

inline bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The text between the first `before` and the next `after` (to the end when `after` is empty or
// missing); nullopt without `before`.
inline std::optional<std::string_view> Between(std::string_view text, std::string_view before,
                                               std::string_view after) {
  const size_t begin = text.find(before);
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin + before.size());
  return after.empty() ? text : text.substr(0, text.find(after));
}

// Takes the word up to the next white space, and the white space after it, off the front.
inline std::string_view TakeWord(std::string_view* text) {
  size_t end = 0;
  while (end < text->size() && !IsSpace((*text)[end])) ++end;
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(end);
  while (!text->empty() && IsSpace(text->front())) text->remove_prefix(1);
  return word;
}

// The number that is the whole of `text`.
template <typename Int = int64_t>
std::optional<Int> WholeNumber(std::string_view text, int base = 10) {
  Int value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// The number with which `text` begins; what follows does not matter.
template <typename Int = int64_t>
std::optional<Int> LeadingNumber(std::string_view text) {
  Int value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

inline std::optional<double> LeadingDecimal(std::string_view text) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

// "1 line", "3 lines".
inline std::string Counted(uint64_t count, std::string_view singular) {
  return std::to_string(count) + " " + std::string(singular) + (count == 1 ? "" : "s");
}

}  // namespace flare::import
