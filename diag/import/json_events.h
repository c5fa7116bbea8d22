// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "diag/import/input.h"

// Splits a Chrome trace into its events: a bare array of objects, or {"traceEvents": [...]} with
// other members before and after it. The document never lies in memory as a whole; at most one
// event of kMaxEventBytes does, and those members that were asked for.
//
// Tolerant, for traces are cut off and written by many tools: what is no object of sane size and
// depth is skipped and counted, the end of the file may come anywhere. One thread.
namespace flare::import {

// The members of one event as they stand in the text. Valid until the next event is read.
class JsonEvent {
 public:
  static constexpr size_t kMaxFields = 32;

  // The text of a value, quotes included; empty when there is none of this name.
  std::string_view Raw(std::string_view key) const;
  // A string without its quotes. Escapes are left as they are, but for \" \\ \/. Valid until the
  // next string is asked for.
  std::string_view String(std::string_view key) const;
  // A string or a number, as text.
  std::string_view Text(std::string_view key) const;
  // A time or duration in microseconds, exact to the nanosecond.
  std::optional<int64_t> Nanoseconds(std::string_view key) const;
  std::string_view whole() const { return whole_; }

 private:
  friend class JsonEvents;
  struct Field {
    std::string_view key, value;
  };
  std::string_view whole_;
  std::array<Field, kMaxFields> fields_;
  size_t field_count_ = 0;
  mutable std::string unescaped_;
};

class JsonEvents {
 public:
  static constexpr size_t kMaxEventBytes = 1 << 20;
  static constexpr size_t kMaxMemberBytes = 16 << 20;
  static constexpr int kMaxDepth = 64;

  // Members of the outermost object named in `wanted` are kept as text.
  JsonEvents(Input* input, std::set<std::string, std::less<>> wanted);

  // False at the end of the file, wherever it comes.
  bool Next(JsonEvent* event);
  // Complete once Next() has returned false.
  const std::map<std::string, std::string, std::less<>>& members() const { return members_; }
  uint64_t events() const { return events_; }
  // Whether an array of events was seen at all.
  bool any_array() const { return any_array_; }
  // What was skipped or cut off, as sentences.
  std::vector<std::string> Notes() const;

 private:
  enum class Place : uint8_t { kStart, kObject, kEvents, kEnd };
  enum class Scan : uint8_t { kDone, kMore, kBad };

  bool Fill();
  int Peek();
  int PeekToken();
  bool ReadKey(std::string* key);
  bool CopyValue(std::string* out, size_t limit);
  bool NextMember();
  Scan ScanEvent(const char* from, const char* to, JsonEvent* event, const char** after) const;

  Input* const input_;
  const std::set<std::string, std::less<>> wanted_;
  std::map<std::string, std::string, std::less<>> members_;
  std::string window_;
  size_t at_ = 0;
  bool input_ended_ = false;
  std::string input_error_;
  Place place_ = Place::kStart;
  bool bare_array_ = false;
  bool any_array_ = false;
  bool cut_off_ = false;
  uint64_t events_ = 0, broken_ = 0, too_large_ = 0;
};

// Decimal microseconds to nanoseconds, rounded half away from zero. Exact where a double is not:
// 1706850122862403.217 has more digits than it holds. Nothing when it is no number or does not fit.
std::optional<int64_t> MicrosecondsToNanoseconds(std::string_view text);

}  // namespace flare::import
