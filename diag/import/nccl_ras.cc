// SPDX-License-Identifier: Apache-2.0
#include "diag/import/nccl_ras.h"

#include "diag/import/importers.h"
#include "diag/import/line_reader.h"
#include "diag/import/stack_dump.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

constexpr size_t kMostBytes = size_t{256} << 20;

bool BeginsWith(std::string_view head, std::string_view word) {
  const size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && head.substr(first).starts_with(word);
}

}  // namespace

int RecogniseNcclRas(std::string_view head) {
  if (BeginsWith(head, "{")) {
    const bool answer = Has(head, "\"communicators_count\"") && Has(head, "\"communicators\"");
    return answer || (Has(head, "\"peer\"") && Has(head, "\"nvml_devs\"")) ? 90 : 0;
  }
  if (BeginsWith(head, "RAS Monitor Mode") || BeginsWith(head, "read socket: ")) return 70;
  bool summary = false, comms = false;
  ForEachLine(head, 4096, [&](std::string_view line) {
    summary = summary || line == "Job summary";
    comms = comms || line.starts_with("Communicators...");
    return !comms;
  });
  return comms ? 80 : summary ? 60 : 0;
}

Status ReadNcclRas(Input* input, Fragment* fragment) {
  const std::string& path = input->name();
  const std::string file = path.substr(path.rfind('/') + 1);
  if (BeginsWith(input->head(), "{")) {
    const Result<std::string> bytes = input->ReadAll(kMostBytes);
    if (!bytes.ok()) return bytes.status();
    ValueStore store;
    const Result<Value> root = ReadJson(*bytes, &store);
    if (!root.ok()) return root.status();
    return ReadRasJson(*root, file, fragment);
  }
  LineReader lines(input);
  const std::unique_ptr<RasTextReader> reader = MakeRasTextReader(fragment);
  std::string plain;
  while (const std::optional<std::string_view> line = lines.Next()) {
    reader->Take(WithoutEscapes(*line, &plain), file + ":" + std::to_string(lines.number()));
  }
  lines.AddNotes(fragment);
  return reader->End();
}

}  // namespace flare::import
