// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Words and numbers for people: what may go to a terminal and how it is laid out.
//
// Text that comes from a job (names, exceptions, paths) is hostile until Printable() has seen it.
// Pure functions, any thread.
namespace flare::diag {

// `text` as one line that cannot steer a terminal: control characters, escape sequences,
// bidirectional overrides and invalid UTF-8 become visible escapes (\n, \x1b, \u202e). Cut at
// `max_bytes` of output.
std::string Printable(std::string_view text, size_t max_bytes = 4096);

// Number of code points: the columns a printable text takes.
size_t Columns(std::string_view printable);

// `printable` cut to `columns`, with "..." at the end when something was cut.
std::string Shorten(std::string_view printable, size_t columns);

// Breaks a printable text at spaces into lines of at most `columns`; a longer word is broken.
std::vector<std::string> Wrap(std::string_view printable, size_t columns);

// 0, 1, 2, 5 as "0-2, 5". More than `max_ranges` ranges end in ", ... (N in all)".
std::string RankList(std::vector<uint32_t> ranks, size_t max_ranges = 12);

// "850 ms", "12 s", "3 min 20 s", "2 h 5 min", "3 d 4 h".
std::string DurationWords(uint64_t duration_ns);

// A step time: "0.42 s", "12 ms".
std::string StepTime(double seconds);

// RFC 3339 in UTC with milliseconds: "2026-03-14T14:03:22.123Z".
std::string UtcMillis(uint64_t unix_ns);

// For people: "2026-03-14 14:03:22 UTC".
std::string UtcSeconds(uint64_t unix_ns);

// Three significant digits, no exponent for everyday sizes.
std::string Number(double value);

// "1 rank", "3 ranks".
std::string Counted(uint64_t count, const char* noun);

}  // namespace flare::diag
