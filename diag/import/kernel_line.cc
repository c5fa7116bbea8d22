// SPDX-License-Identifier: Apache-2.0
#include "diag/import/kernel_line.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

unsigned MonthOf(std::string_view name) {
  const auto found = std::find(kMonths.begin(), kMonths.end(), name);
  return found == kMonths.end() ? 0 : static_cast<unsigned>(found - kMonths.begin()) + 1;
}

// The two digits at `at`, at most `most`.
std::optional<unsigned> TwoDigits(std::string_view text, size_t at, unsigned most) {
  if (at + 2 > text.size() || !IsDigit(text[at]) || !IsDigit(text[at + 1])) return std::nullopt;
  const auto value = static_cast<unsigned>((text[at] - '0') * 10 + (text[at + 1] - '0'));
  return value <= most ? std::optional(value) : std::nullopt;
}

// "16:24:18" in seconds of the day.
std::optional<int64_t> ClockTime(std::string_view text) {
  const auto hour = TwoDigits(text, 0, 23), minute = TwoDigits(text, 3, 59),
             second = TwoDigits(text, 6, 60);
  if (!hour || !minute || !second || text[2] != ':' || text[5] != ':') return std::nullopt;
  return *hour * 3600 + *minute * 60 + *second;
}

std::optional<int64_t> UnixSeconds(int year, unsigned month, unsigned day, int64_t of_day) {
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  if (!date.ok() || year < 1970 || year > 2100) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count() * int64_t{86'400} + of_day;
}

// "+00:00", "+0800" or "Z" in seconds; takes it off the front.
std::optional<int64_t> TakeZone(std::string_view* text) {
  if (text->starts_with('Z')) {
    text->remove_prefix(1);
    return 0;
  }
  if (!text->starts_with('+') && !text->starts_with('-')) return std::nullopt;
  const bool colon = text->size() > 3 && (*text)[3] == ':';
  const auto hours = TwoDigits(*text, 1, 14), minutes = TwoDigits(*text, colon ? 4 : 3, 59);
  if (!hours || !minutes) return std::nullopt;
  const int64_t seconds = *hours * 3600 + *minutes * 60;
  const bool west = text->front() == '-';
  text->remove_prefix(colon ? 6 : 5);
  return west ? -seconds : seconds;
}

// "2024-11-15T05:39:15,491363+00:00 "; takes it off the front. `by_dmesg`: microseconds after a
// comma, as no other program writes them.
bool TakeIsoTime(std::string_view* text, KernelLine* line, bool* by_dmesg) {
  std::string_view rest = *text;
  if (rest.size() < 19 || rest[4] != '-' || rest[7] != '-' || (rest[10] != 'T' && rest[10] != ' '))
    return false;
  const auto year = WholeNumber<int>(rest.substr(0, 4));
  const auto month = TwoDigits(rest, 5, 12), day = TwoDigits(rest, 8, 31);
  const auto of_day = ClockTime(rest.substr(11));
  if (!year || !month || !day || !of_day) return false;
  const auto seconds = UnixSeconds(*year, *month, *day, *of_day);
  if (!seconds) return false;
  rest.remove_prefix(19);
  int64_t nanoseconds = 0;
  const bool comma = rest.starts_with(',');
  const size_t fraction_begin = rest.size();
  if (comma || rest.starts_with('.')) {
    rest.remove_prefix(1);
    for (int64_t unit = 100'000'000; !rest.empty() && IsDigit(rest.front()); unit /= 10) {
      nanoseconds += (rest.front() - '0') * unit;
      rest.remove_prefix(1);
    }
  }
  const size_t fraction_size = fraction_begin - rest.size();
  const auto zone = TakeZone(&rest);
  *by_dmesg = comma && fraction_size == 7 && zone;
  line->local_time = !zone;
  const int64_t utc = *seconds - zone.value_or(0);
  if (utc > 0) line->at_unix_ns = static_cast<uint64_t>(utc * 1'000'000'000 + nanoseconds);
  *text = Trim(rest);
  return true;
}

// "[Sun Feb 23 16:24:18 2025] " or "[131453.740743] " (also "[T123]" and relative forms).
bool TakeBracketTime(std::string_view* text, KernelLine* line) {
  if (!text->starts_with('[')) return false;
  const size_t end = text->substr(0, 64).find(']');
  if (end == std::string_view::npos) return false;
  std::string_view inside = Trim(text->substr(1, end - 1));
  const std::string_view rest = Trim(text->substr(end + 1));
  const size_t point = inside.find('.');
  const std::string_view seconds = inside.substr(inside.starts_with('+') ? 1 : 0, point);
  if (point != std::string_view::npos && WholeNumber<uint64_t>(Trim(seconds))) {
    line->timeless = true;
    *text = rest;
    return true;
  }
  TakeWord(&inside);  // day of the week
  const unsigned month = MonthOf(TakeWord(&inside));
  const auto day = WholeNumber<unsigned>(TakeWord(&inside));
  const auto of_day = ClockTime(TakeWord(&inside));
  const auto year = WholeNumber<int>(TakeWord(&inside));
  if (month == 0 || !day || !of_day || !year) return false;
  const auto unix = UnixSeconds(*year, month, *day, *of_day);
  if (!unix) return false;
  if (*unix > 0) line->at_unix_ns = static_cast<uint64_t>(*unix) * 1'000'000'000;
  line->local_time = true;
  *text = rest;
  return true;
}

// "Aug 17 06:18:01 ".
bool TakeSyslogTime(std::string_view* text, KernelLine* line) {
  std::string_view rest = *text;
  const unsigned month = MonthOf(TakeWord(&rest));
  const auto day = WholeNumber<unsigned>(TakeWord(&rest));
  const auto of_day = ClockTime(TakeWord(&rest));
  if (month == 0 || !day || *day > 31 || !of_day) return false;
  line->timeless = true;
  *text = rest;
  return true;
}

// "kern  :warn  : ".
bool TakeFacility(std::string_view* text) {
  std::string_view rest = *text;
  if (!rest.starts_with("kern") && !rest.starts_with("user") && !rest.starts_with("daemon") &&
      !rest.starts_with("syslog")) {
    return false;
  }
  TakeWord(&rest);
  if (!rest.starts_with(':')) return false;
  const size_t end = rest.find(':', 1);
  if (end == std::string_view::npos || end > 10) return false;
  *text = Trim(rest.substr(end + 1));
  return true;
}

// "6,3964,206764307,-;", or with more after the flags.
bool TakeKmsg(std::string_view* text) {
  const size_t end = text->substr(0, 120).find(';');
  if (end == std::string_view::npos) return false;
  std::string_view header = text->substr(0, end);
  for (int number = 0; number < 3; ++number) {
    const size_t comma = header.find(',');
    if (comma == std::string_view::npos || !WholeNumber<uint64_t>(header.substr(0, comma))) {
      return false;
    }
    header.remove_prefix(comma + 1);
  }
  if (header != "-" && header != "c" && header != "+" && !Has(header, ",")) return false;
  *text = text->substr(end + 1);
  return true;
}

// "<4>".
bool TakePriority(std::string_view* text) {
  const size_t end = text->substr(0, 6).find('>');
  if (!text->starts_with('<') || end == std::string_view::npos ||
      !WholeNumber<unsigned>(text->substr(1, end - 1))) {
    return false;
  }
  text->remove_prefix(end + 1);
  return true;
}

bool IsProgram(std::string_view word) {
  if (word.size() < 2 || word.back() != ':') return false;
  word.remove_suffix(1);
  if (word.ends_with(']')) {
    const size_t open = word.rfind('[');
    return open != std::string_view::npos && open > 0 &&
           WholeNumber<uint64_t>(word.substr(open + 1, word.size() - open - 2)).has_value();
  }
  return word == "kernel" || word == "audit" || word == "systemd" || word == "NetworkManager";
}

// "host kernel: "; `sure` when the form of the time promises a host.
void TakeHost(std::string_view* text, bool sure, KernelLine* line) {
  std::string_view rest = *text;
  const std::string_view host = TakeWord(&rest);
  const std::string_view program = TakeWord(&rest);
  if (host.empty() || host.ends_with(':')) return;
  if (!IsProgram(program) && !(sure && program.ends_with(':'))) return;
  line->node = host;
  *text = rest;
  KernelLine ignored;
  TakeBracketTime(text, &ignored);  // "kernel: [  966.5] text"
}

bool KnownByItsWords(std::string_view text) {
  return text.starts_with("NVRM: ") || text.starts_with("nvidia-nvswitch") ||
         text.starts_with("nvidia-peermem ") || text.starts_with("Panic#");
}

}  // namespace

KernelLine ParseKernelLine(std::string_view raw) {
  KernelLine line;
  std::string_view text = raw;
  const bool facility = TakeFacility(&text);
  bool by_dmesg = false;
  if (TakePriority(&text)) {
    line.recognised = TakeBracketTime(&text, &line) || TakeIsoTime(&text, &line, &by_dmesg);
    if (!line.recognised) text = raw;
  } else if (TakeKmsg(&text)) {
    line.recognised = line.timeless = true;
  } else if (TakeBracketTime(&text, &line)) {
    line.recognised = true;
  } else if (TakeIsoTime(&text, &line, &by_dmesg)) {
    // Many logs begin with such a time.
    TakeHost(&text, false, &line);
    line.recognised = facility || by_dmesg || !line.node.empty() || KnownByItsWords(text);
  } else if (TakeSyslogTime(&text, &line)) {
    line.recognised = true;
    TakeHost(&text, true, &line);
  } else {
    line.recognised = KnownByItsWords(text);
  }
  line.message = text;
  return line;
}

}  // namespace flare::import
