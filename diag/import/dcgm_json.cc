// SPDX-License-Identifier: Apache-2.0
#include <simdjson.h>

#include <string>

#include "diag/import/dcgm_items.h"
#include "diag/import/importers.h"
#include "diag/import/text_scan.h"

// `dcgmi diag -j` and `dcgmi health -j`. Versions nest their results differently; the parts that
// matter keep their form:
//
//   {"name": "PCIe", "results": [{"gpu_id": "2", "status": "Fail", "warnings": [..]}]}
//   "2": {"children": {"Errors": {"children": {"PCIe system": {"value": "Warning", ..}}}}}
namespace flare::import {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr size_t kMostBytes = 64 << 20;
constexpr int kDeepest = 64;

std::string Text(const element& value) {
  std::string_view text;
  int64_t number = 0;
  if (value.get(text) == simdjson::SUCCESS) return std::string(text.substr(0, 300));
  if (value.get(number) == simdjson::SUCCESS) return std::to_string(number);
  return "";
}

std::string Field(const object& from, std::string_view key) {
  element value;
  return from[key].get(value) == simdjson::SUCCESS ? Text(value) : "";
}

// All texts below, for explanations whose form changes with the version.
void Collect(const element& value, int depth, std::string* words) {
  if (depth > kDeepest || words->size() > 500) return;
  array list;
  object fields;
  if (value.get(list) == simdjson::SUCCESS) {
    for (const element item : list) Collect(item, depth + 1, words);
  } else if (value.get(fields) == simdjson::SUCCESS) {
    for (const auto field : fields) {
      if (field.key != "value") Collect(field.value, depth + 1, words);
    }
  } else if (std::string text = Text(value); !text.empty()) {
    *words += (words->empty() ? "" : " ") + text;
  }
}

class Walker {
 public:
  explicit Walker(SignalList* signals) : signals_(signals) {}

  void Walk(const element& value, std::string_view key, const std::string& gpu, int depth) {
    if (depth > kDeepest) return;
    array list;
    object fields;
    if (value.get(list) == simdjson::SUCCESS) {
      for (const element item : list) Walk(item, key, gpu, depth + 1);
      return;
    }
    if (value.get(fields) != simdjson::SUCCESS) return;
    array results;
    if (fields["results"].get(results) == simdjson::SUCCESS) {
      TakeResults(Field(fields, "name"), results);
      return;
    }
    const std::string status = Field(fields, "value");
    if (Has(key, "system") && (SaysFail(status) || SaysWarn(status))) {
      DcgmItem item{gpu, std::string(key.substr(0, 80)), "", SaysFail(status), "dcgmi health"};
      Collect(value, depth, &item.words);
      AddDcgmItem(item, signals_);
      return;
    }
    for (const auto field : fields) {
      const bool names_gpu = WholeNumber<uint32_t>(field.key).has_value();
      Walk(field.value, field.key, names_gpu ? std::string(field.key) : gpu, depth + 1);
    }
  }

 private:
  void TakeResults(const std::string& test, const array& results) {
    for (const element result : results) {
      object fields;
      if (result.get(fields) != simdjson::SUCCESS) continue;
      const std::string status = Field(fields, "status");
      if (!SaysFail(status) && !SaysWarn(status)) continue;
      DcgmItem item{"", test.substr(0, 80), "", SaysFail(status), "dcgmi diag"};
      for (std::string_view key : {"gpu_id", "gpu_ids", "entity_id"}) {
        if (item.gpu.empty()) item.gpu = Field(fields, key);
      }
      for (std::string_view key : {"warnings", "info"}) {
        element words;
        if (fields[key].get(words) == simdjson::SUCCESS) Collect(words, 0, &item.words);
      }
      AddDcgmItem(item, signals_);
    }
  }

  SignalList* signals_;
};

}  // namespace

int RecogniseDcgmJson(std::string_view head) {
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || head[first] != '{') return 0;
  const bool diagnostic = Has(head, "\"DCGM GPU Diagnostic\"") ||
                          Has(head, "\"DCGM Diagnostic\"") ||
                          (Has(head, "\"test_categories\"") && Has(head, "\"results\""));
  return diagnostic || Has(head, "\"Overall Health\"") ? 90 : 0;
}

Status ReadDcgmJson(Input* input, Fragment* fragment) {
  Result<std::string> text = input->ReadAll(kMostBytes);
  if (!text.ok()) return text.status();
  simdjson::dom::parser parser;
  element root;
  const auto error = parser.parse(simdjson::padded_string(*text)).get(root);
  if (error != simdjson::SUCCESS) {
    return Status::Error(std::string("broken JSON: ") + simdjson::error_message(error));
  }
  SignalList signals;
  Walker(&signals).Walk(root, "", "", 0);
  signals.MoveTo(fragment);
  return Status::Ok();
}

}  // namespace flare::import
