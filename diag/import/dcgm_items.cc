// SPDX-License-Identifier: Apache-2.0
#include "diag/import/dcgm_items.h"

#include <algorithm>
#include <cctype>

#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

}  // namespace

bool SaysFail(std::string_view status) { return Lower(status.substr(0, 4)) == "fail"; }
bool SaysWarn(std::string_view status) { return Lower(status.substr(0, 4)) == "warn"; }

void AddDcgmItem(const DcgmItem& item, SignalList* signals) {
  diag::HostSignal signal;
  const std::string test = Lower(item.test), words = Lower(item.words);
  const auto about = [&](std::string_view word) { return Has(test, word) || Has(words, word); };
  if (const auto xid = Between(words, "xid ", ""); xid && LeadingNumber(*xid)) {
    signal.kind = diag::SignalKind::kXid;
    signal.code = LeadingNumber(*xid);
  } else if (Has(test, "pcie")) {
    signal.kind = diag::SignalKind::kPcieErrors;
    signal.code = item.failed ? 1 : 0;
  } else if (Has(test, "nvlink")) {
    signal.kind =
        Has(words, "down") ? diag::SignalKind::kNvlinkDown : diag::SignalKind::kLinkErrors;
    signal.value = 1;
  } else if (about("double bit") || about("dbe") || about("uncorrectable")) {
    signal.kind = diag::SignalKind::kEcc;
    signal.code = static_cast<int64_t>(diag::EccFact::kVolatileUncorrectable);
    signal.value = 1;
  } else if (about("pending page") || about("pending row")) {
    signal.kind = diag::SignalKind::kEcc;
    signal.code = static_cast<int64_t>(diag::EccFact::kRetirementPending);
    signal.value = 1;
  } else if (about("thermal")) {
    signal.kind = diag::SignalKind::kGpuClock;
    signal.code = static_cast<int64_t>(diag::ClockLimit::kThermal);
  } else {
    signal.kind = diag::SignalKind::kNodeFault;
  }
  if (!item.gpu.empty()) signal.device = "GPU " + item.gpu;
  // Two tests that fail on a GPU are two statements.
  if (signal.kind == diag::SignalKind::kNodeFault) {
    signal.device += (signal.device.empty() ? "DCGM " : ", DCGM ") + item.test;
  }
  signal.text = item.test + ": " + (item.failed ? "Fail" : "Warning");
  if (!item.words.empty()) signal.text += ": " + item.words;
  signal.source = item.source;
  signals->Add(std::move(signal));
}

}  // namespace flare::import
