// SPDX-License-Identifier: Apache-2.0
#include "diag/import/json_events.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

namespace flare::import {
namespace {

constexpr std::array<bool, 256> Table(std::string_view chars) {
  std::array<bool, 256> table{};
  for (const char c : chars) table[static_cast<unsigned char>(c)] = true;
  return table;
}
constexpr std::array<bool, 256> kSpace = Table(" \n\r\t");
constexpr std::array<bool, 256> kEndsScalar = Table(" \n\r\t,}]");

bool IsSpace(char c) { return kSpace[static_cast<unsigned char>(c)]; }
bool EndsScalar(char c) { return kEndsScalar[static_cast<unsigned char>(c)]; }

// From behind the opening quote to the closing one; null when it lies beyond `to`.
const char* EndOfString(const char* at, const char* to) {
  for (;;) {
    const auto* quote =
        static_cast<const char*>(std::memchr(at, '"', static_cast<size_t>(to - at)));
    if (quote == nullptr) return nullptr;
    const char* before = quote;
    while (before > at && before[-1] == '\\') --before;
    if ((quote - before) % 2 == 0) return quote;
    at = quote + 1;
  }
}

const char* SkipSpace(const char* at, const char* to) {
  while (at < to && IsSpace(*at)) ++at;
  return at;
}

}  // namespace

std::string_view JsonEvent::Raw(std::string_view key) const {
  for (size_t i = 0; i < field_count_; ++i) {
    if (fields_[i].key == key) return fields_[i].value;
  }
  return {};
}

std::string_view JsonEvent::String(std::string_view key) const {
  const std::string_view raw = Raw(key);
  return raw.starts_with('"') ? Text(key) : std::string_view();
}

std::string_view JsonEvent::Text(std::string_view key) const {
  std::string_view raw = Raw(key);
  if (!raw.starts_with('"')) return raw.starts_with('{') || raw.starts_with('[') ? "" : raw;
  raw = raw.substr(1, raw.size() - 2);
  if (raw.find('\\') == std::string_view::npos) return raw;
  unescaped_.clear();
  for (size_t i = 0; i < raw.size(); ++i) {
    const bool escape = raw[i] == '\\' && i + 1 < raw.size() &&
                        (raw[i + 1] == '"' || raw[i + 1] == '\\' || raw[i + 1] == '/');
    unescaped_ += raw[escape ? ++i : i];
  }
  return unescaped_;
}

std::optional<int64_t> JsonEvent::Nanoseconds(std::string_view key) const {
  return MicrosecondsToNanoseconds(Text(key));
}

JsonEvents::JsonEvents(Input* input, std::set<std::string, std::less<>> wanted)
    : input_(input), wanted_(std::move(wanted)) {}

// Appends the next piece of the file to what is not consumed yet.
bool JsonEvents::Fill() {
  if (input_ended_) return false;
  window_.erase(0, at_);
  at_ = 0;
  const Result<std::string_view> piece = input_->Next();
  if (!piece.ok()) input_error_ = piece.status().message();
  if (!piece.ok() || piece->empty()) {
    input_ended_ = true;
    return false;
  }
  window_.append(*piece);
  return true;
}

int JsonEvents::Peek() {
  if (at_ == window_.size() && !Fill()) return -1;
  return static_cast<unsigned char>(window_[at_]);
}

// The next byte that is no white space.
int JsonEvents::PeekToken() {
  for (;;) {
    const int c = Peek();
    if (c < 0 || !IsSpace(static_cast<char>(c))) return c;
    ++at_;
  }
}

// Consumes one value, whatever it is, in constant memory; its first `limit` bytes go to `out` when
// there is one. False: the file ended in it.
bool JsonEvents::CopyValue(std::string* out, size_t limit) {
  int64_t depth = 0;
  bool in_string = false, escaped = false, any = false;
  if (PeekToken() < 0) return false;
  for (;; ++at_) {
    const int next = Peek();
    if (next < 0) return any && depth == 0 && !in_string;
    const char c = static_cast<char>(next);
    // A scalar ends before what follows it; a string or a bracketed value ends with itself.
    if (any && !in_string && depth == 0 && EndsScalar(c)) return true;
    if (!any && (c == ',' || c == '}' || c == ']')) return true;
    any = true;
    if (out != nullptr && out->size() < limit) out->push_back(c);
    bool closed = false;
    if (in_string) {
      closed = c == '"' && !escaped;
      escaped = c == '\\' && !escaped;
      in_string = !closed;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      closed = --depth == 0;
    }
    if (closed && depth == 0) {
      ++at_;
      return true;
    }
  }
}

bool JsonEvents::ReadKey(std::string* key) {
  key->clear();
  if (PeekToken() != '"') return false;
  if (!CopyValue(key, 256)) return false;
  if (key->size() >= 2) *key = key->substr(1, key->size() - 2);
  if (PeekToken() != ':') return false;
  ++at_;
  return true;
}

// One member of the outermost object. False: there are no more.
bool JsonEvents::NextMember() {
  int c = PeekToken();
  while (c == ',') {
    ++at_;
    c = PeekToken();
  }
  if (c == '}') return false;
  std::string key;
  if (c < 0 || !ReadKey(&key)) {
    cut_off_ = true;
    return false;
  }
  if (key == "traceEvents" && PeekToken() == '[') {
    ++at_;
    place_ = Place::kEvents;
    any_array_ = true;
    return true;
  }
  std::string value;
  const bool keep = wanted_.contains(key);
  if (!CopyValue(keep ? &value : nullptr, kMaxMemberBytes)) cut_off_ = true;
  if (keep && !value.empty() && !cut_off_) {
    if (value.size() < kMaxMemberBytes) {
      members_.insert_or_assign(key, std::move(value));
    } else {
      ++too_large_;
    }
  }
  return !cut_off_;
}

// Finds the members of the object at `from`. kMore: it goes on beyond `to`.
JsonEvents::Scan JsonEvents::ScanEvent(const char* from, const char* to, JsonEvent* event,
                                       const char** after) const {
  event->field_count_ = 0;
  const char* at = from + 1;
  for (;;) {
    at = SkipSpace(at, to);
    if (at == to) return Scan::kMore;
    if (*at == '}') break;
    if (*at == ',') {
      ++at;
      continue;
    }
    if (*at != '"') return Scan::kBad;
    const char* key = at + 1;
    const char* key_end = EndOfString(key, to);
    if (key_end == nullptr) return Scan::kMore;
    at = SkipSpace(key_end + 1, to);
    if (at == to) return Scan::kMore;
    if (*at != ':') return Scan::kBad;
    at = SkipSpace(at + 1, to);
    if (at == to) return Scan::kMore;
    const char* value = at;
    if (*at == '"') {
      at = EndOfString(at + 1, to);
      if (at == nullptr) return Scan::kMore;
      ++at;
    } else if (*at == '{' || *at == '[') {
      int depth = 0;
      for (; at < to; ++at) {
        const char c = *at;
        if (c == '"') {
          at = EndOfString(at + 1, to);
          if (at == nullptr) return Scan::kMore;
        } else if (c == '{' || c == '[') {
          // One level for the event itself.
          if (++depth >= kMaxDepth) return Scan::kBad;
        } else if ((c == '}' || c == ']') && --depth == 0) {
          break;
        }
      }
      if (at >= to) return Scan::kMore;
      ++at;
    } else {
      // A value that was left out is empty.
      while (at < to && !EndsScalar(*at)) ++at;
      if (at == to) return Scan::kMore;
    }
    if (event->field_count_ < JsonEvent::kMaxFields) {
      event->fields_[event->field_count_++] = {{key, static_cast<size_t>(key_end - key)},
                                               {value, static_cast<size_t>(at - value)}};
    }
  }
  *after = at + 1;
  event->whole_ = {from, static_cast<size_t>(*after - from)};
  return Scan::kDone;
}

bool JsonEvents::Next(JsonEvent* event) {
  for (;;) {
    const int c = PeekToken();
    switch (place_) {
      case Place::kStart:
        if (c == '[') {
          bare_array_ = any_array_ = true;
          place_ = Place::kEvents;
        } else {
          // Some tools write a byte order mark.
          if (c == 0xef || c == 0xbb || c == 0xbf) {
            ++at_;
            break;
          }
          place_ = c == '{' ? Place::kObject : Place::kEnd;
        }
        if (c >= 0) ++at_;
        break;
      case Place::kObject:
        if (!NextMember()) place_ = Place::kEnd;
        break;
      case Place::kEvents: {
        if (c < 0) {
          cut_off_ = true;
          place_ = Place::kEnd;
          break;
        }
        if (c == ']' || c == ',') {
          ++at_;
          if (c == ']') place_ = bare_array_ ? Place::kEnd : Place::kObject;
          break;
        }
        Scan scan = Scan::kBad;
        const char* after = nullptr;
        if (c == '{') {
          do {
            scan = ScanEvent(window_.data() + at_, window_.data() + window_.size(), event, &after);
          } while (scan == Scan::kMore && window_.size() - at_ <= kMaxEventBytes && Fill());
        }
        if (scan == Scan::kDone) {
          at_ = static_cast<size_t>(after - window_.data());
          ++events_;
          return true;
        }
        if (scan == Scan::kMore && input_ended_) {
          cut_off_ = true;
          place_ = Place::kEnd;
          break;
        }
        ++(scan == Scan::kMore ? too_large_ : broken_);
        // What cannot begin a value would stand still.
        if (c == '}' || c == ':') {
          ++at_;
        } else if (!CopyValue(nullptr, 0)) {
          cut_off_ = true;
          place_ = Place::kEnd;
        }
        break;
      }
      case Place::kEnd:
        return false;
    }
  }
}

std::vector<std::string> JsonEvents::Notes() const {
  std::vector<std::string> notes;
  if (!input_error_.empty()) {
    notes.push_back("not read to the end: " + input_error_);
  } else if (cut_off_) {
    notes.push_back("the file is cut off or broken; what comes before that is used");
  }
  const auto add = [&](uint64_t count, const char* what) {
    if (count > 0) notes.push_back(std::to_string(count) + " events left out: " + what);
  };
  add(broken_, "no JSON object, or nested more than 64 deep");
  add(too_large_, "larger than 1 MiB");
  return notes;
}

std::optional<int64_t> MicrosecondsToNanoseconds(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  // Digits without their point, and where that stood.
  unsigned __int128 digits = 0;
  int count = 0, exponent = 3;  // micro to nano
  bool any = false, point = false;
  size_t i = 0;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    any = true;
    if (digits == 0 && c == '0' && !point) continue;
    // 36 digits fit; what comes behind them is far below a nanosecond, or far too large.
    if (count < 36) {
      digits = digits * 10 + static_cast<unsigned>(c - '0');
      count += digits != 0;
      exponent -= point;
    } else if (!point) {
      return std::nullopt;
    }
  }
  if (!any) return std::nullopt;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    const bool down = i < text.size() && text[i] == '-';
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    int power = 0;
    bool any_power = false;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
      power = std::min(1000, power * 10 + (text[i] - '0'));
      any_power = true;
    }
    if (!any_power) return std::nullopt;
    exponent += down ? -power : power;
  }
  if (i != text.size()) return std::nullopt;
  constexpr auto kMost = static_cast<unsigned __int128>(INT64_MAX);
  for (; exponent > 0 && digits != 0; --exponent) {
    digits *= 10;
    if (digits > kMost) return std::nullopt;
  }
  bool half = false;
  for (; exponent < 0 && digits != 0; ++exponent) {
    half = digits % 10 >= 5;
    digits /= 10;
  }
  // A value that vanished before its last division rounds to nothing.
  if (exponent == 0 && half) ++digits;
  if (digits > kMost) return std::nullopt;
  const auto value = static_cast<int64_t>(digits);
  return negative ? -value : value;
}

}  // namespace flare::import
