// SPDX-License-Identifier: Apache-2.0
#include "diag/import/log_time.h"

#include <chrono>
#include <cstddef>

#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

constexpr size_t kSearched = 128;
constexpr size_t kShortest = 19;  // "2024-07-03 19:15:16"

// The number of two digits at `at`, if it is at most `most`.
std::optional<unsigned> Two(std::string_view text, size_t at, unsigned most) {
  if (text.size() < at + 2 || !IsDigit(text[at]) || !IsDigit(text[at + 1])) return std::nullopt;
  const auto number = static_cast<unsigned>((text[at] - '0') * 10 + text[at + 1] - '0');
  return number <= most ? std::optional(number) : std::nullopt;
}

// "+00:00", "-0800" or "Z" at the front, in seconds.
std::optional<int64_t> Zone(std::string_view text) {
  if (text.starts_with('Z')) return 0;
  if (!text.starts_with('+') && !text.starts_with('-')) return std::nullopt;
  const bool colon = text.size() > 3 && text[3] == ':';
  const auto hours = Two(text, 1, 14), minutes = Two(text, colon ? 4 : 3, 59);
  if (!hours || !minutes) return std::nullopt;
  const int64_t seconds = int64_t{*hours} * 3600 + *minutes * 60;
  return text.front() == '-' ? -seconds : seconds;
}

std::optional<LogTime> TimeAt(std::string_view text) {
  const auto year = Two(text, 2, 99), month = Two(text, 5, 12), day = Two(text, 8, 31);
  const auto hour = Two(text, 11, 23), minute = Two(text, 14, 59), second = Two(text, 17, 60);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  if (text[13] != ':' || text[16] != ':') return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(2000 + static_cast<int>(*year)),
                                         std::chrono::month(*month), std::chrono::day(*day));
  if (!date.ok()) return std::nullopt;
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const int64_t local = days * 86'400 + *hour * 3600 + *minute * 60 + *second;
  text.remove_prefix(kShortest);
  LogTime time;
  time.resolution_ns = 1'000'000'000;
  uint64_t nanoseconds = 0;
  if (text.size() > 1 && (text[0] == '.' || text[0] == ',') && IsDigit(text[1])) {
    text.remove_prefix(1);
    while (!text.empty() && IsDigit(text.front())) {
      if (time.resolution_ns > 1) {
        time.resolution_ns /= 10;
        nanoseconds += static_cast<uint64_t>(text.front() - '0') * time.resolution_ns;
      }
      text.remove_prefix(1);
    }
  }
  const std::optional<int64_t> zone = Zone(text);
  time.local = !zone;
  time.unix_ns = static_cast<uint64_t>(local - zone.value_or(0)) * 1'000'000'000 + nanoseconds;
  return time;
}

}  // namespace

std::optional<LogTime> FindLogTime(std::string_view line) {
  const std::string_view head = line.substr(0, kSearched);
  for (size_t at = head.find("20"); at != std::string_view::npos; at = head.find("20", at + 1)) {
    if (at + kShortest > line.size()) return std::nullopt;
    if (at > 0 && IsDigit(line[at - 1])) continue;
    const std::string_view text = line.substr(at);
    const bool form = text[4] == '-' && text[7] == '-' &&
                      (text[10] == ' ' || text[10] == 'T' || text[10] == '-' || text[10] == '_');
    if (!form) continue;
    if (auto time = TimeAt(text)) return time;
  }
  return std::nullopt;
}

}  // namespace flare::import
