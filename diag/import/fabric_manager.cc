// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "diag/import/importers.h"
#include "diag/import/line_reader.h"
#include "diag/import/signal_list.h"
#include "diag/import/text_scan.h"

// The log of NVIDIA's fabric manager:
//
//   [Dec 19 2024 19:17:49] [ERROR] [tid 1374] detected NVSwitch non-fatal error 12028 on fid 0 on
//   NVSwitch pci bus id 00000000:83:00.0 physical id 0 port 34
namespace flare::import {
namespace {

// The text after "[date] [ERROR] [tid 12] "; nullopt for lines of another form or level.
std::optional<std::string_view> ErrorText(std::string_view line) {
  const size_t level = line.find("] [ERROR] [tid ");
  if (!line.starts_with('[') || level == std::string_view::npos || level > 40) return std::nullopt;
  const size_t end = line.find("] ", level + 15);
  return end == std::string_view::npos ? std::nullopt : std::optional(line.substr(end + 2));
}

}  // namespace

int RecogniseFabricManager(std::string_view head) {
  size_t lines = 0;
  ForEachLine(head, 200, [&](std::string_view line) {
    const bool ours = line.starts_with('[') && Has(line.substr(0, 80), "] [tid ") &&
                      (Has(line, "] [INFO] ") || Has(line, "] [ERROR] ") || Has(line, "] [WARN"));
    lines += ours || line.starts_with("Fabric Manager Log initializing") ? 1 : 0;
    return true;
  });
  return lines >= 2 ? 85 : 0;
}

Status ReadFabricManager(Input* input, Fragment* fragment) {
  SignalList signals;
  LineReader lines(input);
  while (const auto line = lines.Next()) {
    const auto text = ErrorText(*line);
    if (!text) continue;
    diag::HostSignal signal;
    signal.kind = diag::SignalKind::kNodeFault;
    signal.device = "fabric manager";
    const auto number = Between(*text, "fatal error ", " ");
    if (number && Has(*text, "NVSwitch")) {
      signal.kind = diag::SignalKind::kSxid;
      signal.code = LeadingNumber(*number);
      signal.value = Has(*text, "non-fatal") ? 0 : 1;
      signal.device = Between(*text, "pci bus id ", " ").value_or("");
    }
    signal.text = *text;
    signal.source = "fabric manager log, line " + std::to_string(lines.number());
    signals.Add(std::move(signal));
  }
  if (!signals.empty()) {
    fragment->notes.push_back("the times of the fabric manager log have no zone and are left out");
  }
  signals.MoveTo(fragment);
  lines.AddNotes(fragment);
  return lines.number() == 0 ? lines.status() : Status::Ok();
}

}  // namespace flare::import
