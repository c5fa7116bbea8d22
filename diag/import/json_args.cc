// SPDX-License-Identifier: Apache-2.0
#include "diag/import/json_args.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

namespace flare::import {
namespace {

constexpr size_t kMaxItems = 1 << 20;
constexpr size_t kMostDigits = 18;  // any number of so many fits 64 bits

// Copies JSON with what simdjson refuses made into what it takes.
std::string Mend(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 64);
  const std::string clean = CleanUtf8(text);
  bool in_string = false;
  for (size_t i = 0; i < clean.size(); ++i) {
    const char c = clean[i];
    if (in_string) {
      // Raw control characters, as some tools leave in names.
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
      if (c == '\\' && i + 1 < clean.size()) out += clean[++i];
      in_string = c != '"';
      continue;
    }
    if (c == '"') in_string = true;
    // A value that was left out: "key": , as some tools write.
    if ((c == ',' || c == '}') && out.find_last_not_of(" \n\r\t") != out.npos &&
        out[out.find_last_not_of(" \n\r\t")] == ':') {
      out += "null";
    }
    const bool word = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '+' || c == '.';
    if (!word) {
      out += c;
      continue;
    }
    size_t end = i;
    while (end < clean.size() && std::strchr(",]}: \n\r\t\"[{", clean[end]) == nullptr) ++end;
    const std::string_view token = std::string_view(clean).substr(i, end - i);
    const bool digits = token.find_first_not_of("0123456789", token[0] == '-') == token.npos;
    if (token == "true" || token == "false" || token == "null") {
      out += token;
    } else if (token.find_first_not_of("+-.0123456789eE") != token.npos) {
      out += "null";  // NaN, inf, -Infinity
    } else if (digits && token.size() > kMostDigits) {
      out += '"';
      out += token;
      out += '"';
    } else {
      out += token;
    }
    i = end - 1;
  }
  return out;
}

std::optional<int64_t> WholeNumber(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.starts_with("0x")) {
    uint64_t bits = 0;
    const auto got = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    if (got.ec != std::errc() || got.ptr != text.data() + text.size()) return std::nullopt;
    return static_cast<int64_t>(bits);
  }
  int64_t value = 0;
  auto got = std::from_chars(text.data(), text.data() + text.size(), value);
  if (got.ec == std::errc() && got.ptr == text.data() + text.size()) return value;
  uint64_t bits = 0;
  got = std::from_chars(text.data(), text.data() + text.size(), bits);
  if (got.ec == std::errc() && got.ptr == text.data() + text.size()) {
    return static_cast<int64_t>(bits);
  }
  return std::nullopt;
}

std::optional<int64_t> WholeNumber(const simdjson::dom::element& value) {
  int64_t whole = 0;
  if (value.get(whole) == simdjson::SUCCESS) return whole;
  uint64_t bits = 0;
  if (value.get(bits) == simdjson::SUCCESS) return static_cast<int64_t>(bits);
  double real = 0;
  if (value.get(real) == simdjson::SUCCESS) {
    if (!(std::fabs(real) < 9e18) || real != std::floor(real)) return std::nullopt;
    return static_cast<int64_t>(real);
  }
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) return WholeNumber(text);
  return std::nullopt;
}

}  // namespace

std::string CleanUtf8(std::string_view text) {
  std::string out(text);
  if (simdjson::validate_utf8(out.data(), out.size())) return out;
  for (char& c : out) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return out;
}

struct JsonArgs::State {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  bool valid = false;

  bool Find(std::string_view key, simdjson::dom::element* value) const {
    return valid && object.at_key(key).get(*value) == simdjson::SUCCESS;
  }
  bool Take(std::string_view text) {
    simdjson::dom::element root;
    // Copies into its own padded buffer.
    if (parser.parse(text.data(), text.size(), true).get(root) != simdjson::SUCCESS) return false;
    return root.get(object) == simdjson::SUCCESS;
  }
};

JsonArgs::JsonArgs() : state_(std::make_unique<State>()) {}
JsonArgs::~JsonArgs() = default;

bool JsonArgs::Parse(std::string_view text) {
  state_->valid = !text.empty() && (state_->Take(text) || state_->Take(Mend(text)));
  return state_->valid;
}

std::optional<int64_t> JsonArgs::Int(std::string_view key) const {
  simdjson::dom::element value;
  if (!state_->Find(key, &value)) return std::nullopt;
  return WholeNumber(value);
}

std::string_view JsonArgs::String(std::string_view key) const {
  simdjson::dom::element value;
  std::string_view text;
  if (!state_->Find(key, &value) || value.get(text) != simdjson::SUCCESS) return {};
  return text;
}

std::vector<std::string_view> JsonArgs::Strings(std::string_view key) const {
  std::vector<std::string_view> strings;
  simdjson::dom::element value;
  simdjson::dom::array list;
  if (!state_->Find(key, &value) || value.get(list) != simdjson::SUCCESS) return strings;
  for (const simdjson::dom::element item : list) {
    if (strings.size() == kMaxItems) break;
    std::string_view text;
    if (item.get(text) != simdjson::SUCCESS) text = {};
    strings.push_back(text);
  }
  return strings;
}

std::vector<std::vector<int64_t>> JsonArgs::Dims(std::string_view key) const {
  std::vector<std::vector<int64_t>> all;
  simdjson::dom::element value;
  simdjson::dom::array list;
  if (!state_->Find(key, &value) || value.get(list) != simdjson::SUCCESS) return all;
  for (const simdjson::dom::element item : list) {
    if (all.size() == kMaxItems) break;
    std::vector<int64_t>& dims = all.emplace_back();
    simdjson::dom::array sizes;
    if (item.get(sizes) != simdjson::SUCCESS) continue;
    simdjson::dom::array first;
    if (sizes.size() > 0 && sizes.at(0).get(first) == simdjson::SUCCESS) sizes = first;
    for (const simdjson::dom::element size : sizes) {
      const std::optional<int64_t> whole = WholeNumber(size);
      if (whole && dims.size() < kMaxItems) dims.push_back(*whole);
    }
  }
  return all;
}

std::vector<int64_t> JsonArgs::Ints(std::string_view key) const {
  std::vector<int64_t> numbers;
  simdjson::dom::element value;
  if (!state_->Find(key, &value)) return numbers;
  simdjson::dom::array list;
  if (value.get(list) == simdjson::SUCCESS) {
    for (const simdjson::dom::element item : list) {
      const std::optional<int64_t> whole = WholeNumber(item);
      if (whole && numbers.size() < kMaxItems) numbers.push_back(*whole);
    }
    return numbers;
  }
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS || !text.starts_with('[')) return numbers;
  text.remove_prefix(1);
  while (!text.empty() && numbers.size() < kMaxItems) {
    const size_t end = std::min(text.find_first_of(",]"), text.size());
    const std::optional<int64_t> whole = WholeNumber(text.substr(0, end));
    // "[0, 1, ..., 1023]": PyTorch shortens long lists, so they are not the whole truth.
    if (!whole) return {};
    numbers.push_back(*whole);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return numbers;
}

std::vector<std::string> JsonArgs::Objects(std::string_view key) const {
  std::vector<std::string> objects;
  simdjson::dom::element value;
  simdjson::dom::array list;
  if (!state_->Find(key, &value) || value.get(list) != simdjson::SUCCESS) return objects;
  for (const simdjson::dom::element item : list) {
    simdjson::dom::object object;
    if (item.get(object) != simdjson::SUCCESS || objects.size() == kMaxItems) continue;
    objects.push_back(simdjson::minify(item));
  }
  return objects;
}

}  // namespace flare::import
