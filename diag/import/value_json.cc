// SPDX-License-Identifier: Apache-2.0
#include <simdjson.h>

#include <string>

#include "diag/import/value.h"

namespace flare::import {
namespace {

constexpr size_t kMaxDepth = 256;

Value Convert(const simdjson::dom::element& element, ValueStore* store) {
  using Type = simdjson::dom::element_type;
  switch (element.type()) {
    case Type::ARRAY: {
      const simdjson::dom::array array = element.get_array().value_unsafe();
      const Value list = store->NewList();
      std::vector<Value>* items = store->List(list);
      items->reserve(array.size());
      for (const simdjson::dom::element item : array) items->push_back(Convert(item, store));
      return list;
    }
    case Type::OBJECT: {
      const simdjson::dom::object object = element.get_object().value_unsafe();
      const Value table = store->NewTable();
      std::vector<Value::Member>* members = store->Table(table);
      members->reserve(object.size());
      for (const auto field : object) {
        members->push_back({store->Keep(std::string(field.key)), Convert(field.value, store)});
      }
      return table;
    }
    case Type::INT64:
      return Value::Integer(element.get_int64().value_unsafe());
    case Type::UINT64:
      return Value::Real(static_cast<double>(element.get_uint64().value_unsafe()));
    case Type::DOUBLE:
      return Value::Real(element.get_double().value_unsafe());
    case Type::STRING:
      return store->Keep(std::string(element.get_string().value_unsafe()));
    case Type::BOOL:
      return Value::Bool(element.get_bool().value_unsafe());
    default:
      return Value();
  }
}

}  // namespace

Result<Value> ReadJson(std::string_view json, ValueStore* store) {
  simdjson::dom::parser parser;
  simdjson::error_code error = parser.allocate(json.size(), kMaxDepth);
  simdjson::dom::element document;
  if (!error) error = parser.parse(json.data(), json.size()).get(document);
  if (error) return Status::Error(std::string("not valid JSON: ") + simdjson::error_message(error));
  return Convert(document, store);
}

}  // namespace flare::import
