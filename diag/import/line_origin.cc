// SPDX-License-Identifier: Apache-2.0
#include "diag/import/line_origin.h"

#include <algorithm>

#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

constexpr size_t kLongestPrefix = 128;

bool IsNameChar(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
         c == '_';
}

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kLongestPrefix &&
         std::all_of(text.begin(), text.end(), IsNameChar);
}

// Names of hosts as dshbak folds them: "node[48-49,51]".
bool IsHostList(std::string_view text) {
  return !text.empty() && text.size() <= kLongestPrefix &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsNameChar(c) || c == '[' || c == ']' || c == ','; });
}

bool IsRule(std::string_view line) {
  return line.size() >= 5 && line.find_first_not_of('-') == std::string_view::npos;
}

PrefixedLine SplitBracket(std::string_view line) {
  size_t end = line.substr(0, kLongestPrefix).find(']');
  if (end == std::string_view::npos) return {"", line};
  ++end;
  for (std::string_view stream : {"<stdout>", "<stderr>"}) {
    if (line.substr(end).starts_with(stream)) end += stream.size();
  }
  if (end >= line.size() || line[end] != ':') return {"", line};
  return {line.substr(0, end), line.substr(end + 1)};
}

}  // namespace

PrefixedLine SplitPrefix(std::string_view line) {
  if (line.starts_with('[')) return SplitBracket(line);
  const size_t colon = line.substr(0, kLongestPrefix).find(':');
  if (colon == std::string_view::npos || !IsName(line.substr(0, colon))) return {"", line};
  const std::string_view rest = line.substr(colon + 1);
  if (!rest.empty() && rest.front() != ' ') return {"", line};
  return {line.substr(0, colon), rest.empty() ? rest : rest.substr(1)};
}

Origin OriginOfPrefix(std::string_view prefix) {
  Origin origin;
  if (prefix.starts_with('[')) {
    std::string_view inside = prefix.substr(1, prefix.find(']') - 1);
    if (inside.starts_with("rank")) {
      inside.remove_prefix(4);
    } else if (const size_t comma = inside.find(','); comma != std::string_view::npos) {
      inside.remove_prefix(comma + 1);  // "job,rank"
    } else {
      return origin;  // "[default3]" tells the place on its node only
    }
    if (const auto rank = WholeNumber<uint32_t>(inside)) origin.rank = Rank(*rank);
    return origin;
  }
  if (const auto task = WholeNumber<uint32_t>(prefix)) {
    origin.rank = Rank(*task);
  } else {
    origin.node = prefix;
  }
  return origin;
}

bool BlockHeading::Take(std::string_view line) {
  if (IsRule(line)) {
    const bool closes = named_;
    after_rule_ = !closes;
    named_ = false;
    return true;
  }
  if (after_rule_ && IsHostList(line)) {
    after_rule_ = false;
    named_ = true;
    node_ = line;
    return true;
  }
  after_rule_ = named_ = false;
  const size_t bar = line.find(" | ");
  if (bar != std::string_view::npos && IsName(line.substr(0, bar)) && line.ends_with(">>")) {
    node_ = line.substr(0, bar);
    return true;
  }
  for (std::string_view mark : {"[SUCCESS] ", "[FAILURE] "}) {
    const size_t at = line.find(mark);
    if (!line.starts_with('[') || at == std::string_view::npos) continue;
    std::string_view rest = line.substr(at + mark.size());
    node_ = TakeWord(&rest);
    return true;
  }
  return false;
}

}  // namespace flare::import
