// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "diag/import/fragment.h"
#include "diag/import/input.h"
#include "libflare/core/status.h"

// The lines of a text file, one after the other, in memory bounded by the longest line.
//
// A line ends with "\n" or "\r\n", or at each "\r" if wanted; the last one may lack its end. Lines
// beyond kLongestLine are cut there. What made reading stop early is no error here: the lines
// before it are good.
namespace flare::import {

class LineReader {
 public:
  static constexpr size_t kLongestLine = 64 << 10;

  enum class Ends { kNewline, kCarriageReturnToo };
  explicit LineReader(Input* input, Ends ends = Ends::kNewline) : input_(input), ends_(ends) {}

  // Without its end; nullopt at the end. Valid until the next call.
  std::optional<std::string_view> Next();
  uint64_t number() const { return number_; }  // of the line last given, from 1, as "\n" counts
  // Why reading stopped before the end of the file, if it did.
  const Status& status() const { return status_; }
  // Says in the notes what was cut: lines, or the file itself.
  void AddNotes(Fragment* fragment) const;

 private:
  bool More();
  size_t EndInChunk() const;

  Input* input_;
  const Ends ends_;
  std::string_view chunk_;
  std::string line_;  // the beginning of a line that goes on in the next chunk
  uint64_t number_ = 0;
  bool newline_ = true;  // the line before ended with "\n"
  uint64_t cut_ = 0;
  bool ended_ = false;
  Status status_;
};

// Calls `line` for each line of a head (Input::head), at most `most`; false from it stops. The last
// line of a head may be incomplete.
template <typename Function>
void ForEachLine(std::string_view head, size_t most, Function line) {
  for (size_t count = 0; count < most && !head.empty(); ++count) {
    const size_t end = head.find('\n');
    std::string_view text = head.substr(0, end);
    head.remove_prefix(end == std::string_view::npos ? head.size() : end + 1);
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (!line(text)) return;
  }
}

}  // namespace flare::import
