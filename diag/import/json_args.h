// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// One JSON object, parsed: the "args" of an event, or a member of a trace.
//
// What simdjson refuses is mended and tried once more: NaN and Infinity become null, numbers beyond
// 64 bits strings, bytes that are no UTF-8 question marks. The parser keeps its memory for the next
// object. One thread.
namespace flare::import {

class JsonArgs {
 public:
  JsonArgs();
  ~JsonArgs();
  JsonArgs(const JsonArgs&) = delete;
  JsonArgs& operator=(const JsonArgs&) = delete;

  // False, and empty, when it is no object even after mending.
  bool Parse(std::string_view text);

  // Whole numbers, also those written as a string or as 12.0. Above 2^63 the bits are kept, so that
  // identities stay distinct.
  std::optional<int64_t> Int(std::string_view key) const;
  // Empty when there is none of this name or it is no string. Valid until the next Parse().
  std::string_view String(std::string_view key) const;
  // The strings of a list; those that are none come out empty.
  std::vector<std::string_view> Strings(std::string_view key) const;
  // "Input Dims": a list of lists of whole numbers. What is neither stays an empty list; of a list
  // of such lists (a TensorList) the first counts.
  std::vector<std::vector<int64_t>> Dims(std::string_view key) const;
  // A list of whole numbers, written as such or as the string "[0, 1]".
  std::vector<int64_t> Ints(std::string_view key) const;
  // The objects in a list, as text to be parsed in turn.
  std::vector<std::string> Objects(std::string_view key) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// `text` itself when it is UTF-8, else with every byte beyond ASCII as a question mark.
std::string CleanUtf8(std::string_view text);

}  // namespace flare::import
