// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

// The time that a line of a program's log tells, whatever stands around it:
//
//   [2024-07-03 19:15:16,379] [INFO] ...      Python logging, DeepSpeed
//   [NeMo I 2024-05-01 12:34:56 file:1] ...   seconds only
//   2025-01-17T17:10:43.123456+00:00 ...      with its zone
namespace flare::import {

struct LogTime {
  uint64_t unix_ns = 0;
  bool local = false;          // without a zone, taken as UTC
  uint64_t resolution_ns = 1;  // of the digits written: 1 s, 1 ms, ...
};

// The first date and time within the first 128 bytes. Years 2000 to 2099.
std::optional<LogTime> FindLogTime(std::string_view line);

}  // namespace flare::import
