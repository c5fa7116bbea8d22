// SPDX-License-Identifier: Apache-2.0
#include "tests/diag/import/fr_builder.h"

#include "diag/import/value.h"

namespace flare::import {
namespace {

constexpr uint64_t kBeginNs = 1'758'000'000'000'000'000;

std::string Time(uint64_t ms) { return std::to_string(kBeginNs + ms * 1'000'000); }

void AppendLittle(uint64_t number, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) out->push_back(static_cast<char>(number >> (8 * i)));
}

void AppendValue(const Value& value, std::string* out) {
  switch (value.kind()) {
    case Value::Kind::kNone:
      out->push_back('N');
      return;
    case Value::Kind::kBool:
      out->push_back(value.is_true() ? '\x88' : '\x89');
      return;
    case Value::Kind::kText:
      out->push_back('X');
      AppendLittle(value.text().size(), 4, out);
      out->append(value.text());
      return;
    case Value::Kind::kList:
      out->append("](");
      for (const Value& item : value.items()) AppendValue(item, out);
      out->push_back('e');
      return;
    case Value::Kind::kTable:
      out->append("}(");
      for (const auto& [key, item] : value.members()) {
        AppendValue(key, out);
        AppendValue(item, out);
      }
      out->push_back('u');
      return;
    default:
      out->append("\x8a\x08");
      AppendLittle(static_cast<uint64_t>(value.integer().value_or(0)), 8, out);
  }
}

}  // namespace

TestDump& TestDump::History(uint64_t count) {
  for (uint64_t i = 1; i <= count; ++i) {
    TestEntry entry;
    entry.sequence = i;
    entry.state = "completed";
    entry.created_ms = i * 10;
    entries.push_back(entry);
  }
  return *this;
}

TestDump& TestDump::Add(TestEntry entry) {
  entries.push_back(std::move(entry));
  return *this;
}

std::string TestDump::Json() const {
  std::string json = R"({"version": ")" + version + R"(", "pg_config": {)";
  for (size_t i = 0; i < groups.size(); ++i) {
    json += (i > 0 ? ", \"" : "\"") + groups[i].name + R"(": {"name": ")" + groups[i].name +
            R"(", "desc": ")" + groups[i].description + R"(", "ranks": ")" + groups[i].ranks +
            "\"}";
  }
  json += R"(}, "pg_status": {)" + status + R"(}, "entries": [)";
  for (size_t i = 0; i < entries.size(); ++i) {
    const TestEntry& entry = entries[i];
    const bool done = entry.state == "completed";
    const std::string tensors = entry.sizes.empty() ? "[]" : entry.sizes;
    const std::string types = entry.sizes.empty() ? "[]" : "[\"" + entry.type + "\"]";
    json += (i > 0 ? ", {" : "{");
    json += R"("record_id": )" + std::to_string(i) + R"(, "pg_id": )" + entry.group +
            R"(, "process_group": [")" + entry.group + R"(", ")" + entry.description +
            R"("], "collective_seq_id": )" + std::to_string(entry.sequence) +
            R"(, "p2p_seq_id": 0, "op_id": 1, "profiling_name": ")" + entry.name +
            R"(", "time_created_ns": )" + Time(entry.created_ms) + R"(, "input_sizes": )" +
            tensors + R"(, "output_sizes": )" + tensors + R"(, "input_dtypes": )" + types +
            R"(, "output_dtypes": )" + types + R"(, "state": ")" + entry.state +
            R"(", "time_discovered_started_ns": )" +
            (entry.state == "scheduled" ? "null" : Time(entry.created_ms + 1)) +
            R"(, "time_discovered_completed_ns": )" + (done ? Time(entry.created_ms + 5) : "null") +
            R"(, "retired": )" + (done || entry.retired ? "true" : "false") +
            R"(, "timeout_ms": 600000, "is_p2p": )" + (entry.point_to_point ? "true" : "false");
    if (!entry.frames.empty()) json += R"(, "frames": )" + entry.frames;
    json += "}";
  }
  return json + "]}";
}

std::string PickleOfJson(const std::string& json) {
  ValueStore store;
  const Result<Value> root = ReadJson(json, &store);
  std::string pickle = "\x80\x02";
  if (root.ok()) AppendValue(*root, &pickle);
  return pickle + '.';
}

}  // namespace flare::import
