// SPDX-License-Identifier: Apache-2.0
#include "diag/import/value.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace flare::import {

Value Value::Bool(bool truth) {
  Value value;
  value.kind_ = Kind::kBool;
  value.content_.integer = truth;
  return value;
}

Value Value::Integer(int64_t number) {
  Value value;
  value.kind_ = Kind::kInteger;
  value.content_.integer = number;
  return value;
}

Value Value::Real(double number) {
  Value value;
  value.kind_ = Kind::kReal;
  value.content_.real = number;
  return value;
}

Value Value::Text(std::string_view text) {
  Value value;
  value.kind_ = Kind::kText;
  value.text_bytes_ = static_cast<uint32_t>(text.size());
  value.content_.text = text.data();
  return value;
}

std::optional<int64_t> Value::integer() const {
  switch (kind_) {
    case Kind::kInteger:
      return content_.integer;
    case Kind::kReal: {
      const double real = content_.real;
      if (!(std::fabs(real) < 0x1p63) || real != std::trunc(real)) return std::nullopt;
      return static_cast<int64_t>(real);
    }
    case Kind::kText: {
      const std::string_view digits = text();
      int64_t number = 0;
      const char* const end = digits.data() + digits.size();
      const auto parsed = std::from_chars(digits.data(), end, number);
      if (digits.empty() || parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
      return number;
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> Value::number() const {
  if (kind_ == Kind::kReal) return content_.real;
  if (kind_ == Kind::kInteger) return static_cast<double>(content_.integer);
  return std::nullopt;
}

std::string_view Value::text() const {
  return kind_ == Kind::kText ? std::string_view(content_.text, text_bytes_) : std::string_view();
}

std::span<const Value> Value::items() const {
  if (kind_ != Kind::kList) return {};
  return *content_.list;
}

std::span<const Value::Member> Value::members() const {
  if (kind_ != Kind::kTable) return {};
  return *content_.table;
}

const Value& Value::operator[](std::string_view key) const {
  static const Value none{};
  const std::span<const Member> all = members();
  for (size_t i = all.size(); i-- > 0;) {
    if (all[i].key.kind_ == Kind::kText && all[i].key.text() == key) return all[i].value;
  }
  return none;
}

Value ValueStore::NewList() {
  Value value;
  value.kind_ = Value::Kind::kList;
  value.content_.list = &lists_.emplace_back();
  return value;
}

Value ValueStore::NewTable() {
  Value value;
  value.kind_ = Value::Kind::kTable;
  value.content_.table = &tables_.emplace_back();
  return value;
}

Value ValueStore::Keep(std::string text) {
  return Value::Text(texts_.emplace_back(std::move(text)));
}

std::vector<Value>* ValueStore::List(const Value& value) {
  return value.kind_ == Value::Kind::kList ? value.content_.list : nullptr;
}

std::vector<Value::Member>* ValueStore::Table(const Value& value) {
  return value.kind_ == Value::Kind::kTable ? value.content_.table : nullptr;
}

}  // namespace flare::import
