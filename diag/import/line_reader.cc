// SPDX-License-Identifier: Apache-2.0
#include "diag/import/line_reader.h"

#include <algorithm>

namespace flare::import {

bool LineReader::More() {
  if (ended_) return false;
  const Result<std::string_view> chunk = input_->Next();
  if (!chunk.ok()) status_ = chunk.status();
  ended_ = !chunk.ok() || chunk->empty();
  if (!ended_) chunk_ = *chunk;
  return !ended_;
}

size_t LineReader::EndInChunk() const {
  const size_t newline = chunk_.find('\n');
  if (ends_ == Ends::kNewline) return newline;
  return std::min(newline, chunk_.substr(0, newline).find('\r'));
}

std::optional<std::string_view> LineReader::Next() {
  line_.clear();
  if (newline_) ++number_;
  bool any = false, spans = false;
  size_t length = 0;  // of the whole line, with what is cut
  for (;;) {
    if (chunk_.empty() && !More()) break;
    any = true;
    const size_t end = EndInChunk();
    const std::string_view piece = chunk_.substr(0, end);
    length += piece.size();
    newline_ = end != std::string_view::npos && chunk_[end] == '\n';
    chunk_.remove_prefix(end == std::string_view::npos ? chunk_.size() : end + 1);
    const bool whole = end != std::string_view::npos && !spans && piece.size() <= kLongestLine;
    if (whole) return piece.ends_with('\r') ? piece.substr(0, piece.size() - 1) : piece;
    spans = true;
    line_.append(piece.substr(0, kLongestLine - std::min(kLongestLine, line_.size())));
    if (end != std::string_view::npos) break;
  }
  if (!any) return std::nullopt;
  if (length > kLongestLine) ++cut_;
  if (line_.ends_with('\r')) line_.pop_back();
  return line_;
}

void LineReader::AddNotes(Fragment* fragment) const {
  if (cut_ > 0) {
    fragment->notes.push_back(std::to_string(cut_) + " lines longer than " +
                              std::to_string(kLongestLine >> 10) + " KiB were cut");
  }
  if (!status_.ok()) {
    fragment->notes.push_back("only the part before this was used: " + status_.message());
  }
}

}  // namespace flare::import
