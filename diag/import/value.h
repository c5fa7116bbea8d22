// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libflare/core/status.h"

// Plain data of a file that must lie in memory as a whole: a pickle, a JSON document.
//
// A Value is a handle of 16 bytes into a ValueStore, which must outlive it, as must the bytes of
// the file: texts refer to them. Any question may be asked of any value: what it is not answers
// with nothing, so that readers of hostile files need no case for it. Lists may hold themselves (a
// pickle can say so): never walk them without a limit. Not for use from several threads while it is
// filled.
namespace flare::import {

class Value {
 public:
  enum class Kind : uint8_t { kNone, kBool, kInteger, kReal, kText, kList, kTable };
  struct Member;

  Value() = default;
  static Value Bool(bool truth);
  static Value Integer(int64_t number);
  static Value Real(double number);
  static Value Text(std::string_view text);  // at most 4 GiB

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_true() const { return kind_ == Kind::kBool && content_.integer != 0; }
  // Whole numbers, also those written as text ("5") or as 5.0; nothing beyond 64 bits.
  std::optional<int64_t> integer() const;
  std::optional<double> number() const;
  std::string_view text() const;
  std::span<const Value> items() const;     // of a list, tuple or set
  std::span<const Member> members() const;  // of a table, in their order
  // What a table holds under a text; of several the last. None when there is no such thing.
  const Value& operator[](std::string_view key) const;

 private:
  friend class ValueStore;
  union Content {
    int64_t integer = 0;
    double real;
    const char* text;
    std::vector<Value>* list;
    std::vector<Member>* table;
  };
  Kind kind_ = Kind::kNone;
  uint32_t text_bytes_ = 0;
  Content content_;
};
static_assert(sizeof(Value) == 16);

struct Value::Member {
  Value key, value;
};

class ValueStore {
 public:
  Value NewList();
  Value NewTable();
  Value Keep(std::string text);  // a text that is not in the bytes of the file
  // Null when the value is no such thing.
  std::vector<Value>* List(const Value& value);
  std::vector<Value::Member>* Table(const Value& value);

 private:
  std::deque<std::vector<Value>> lists_;
  std::deque<std::vector<Value::Member>> tables_;
  std::deque<std::string> texts_;
};

// A whole JSON document. `json` needs no padding; texts are kept in the store. An error says where.
Result<Value> ReadJson(std::string_view json, ValueStore* store);

}  // namespace flare::import
