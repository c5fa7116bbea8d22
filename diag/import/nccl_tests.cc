// SPDX-License-Identifier: Apache-2.0
// Tables of nccl-tests, one row a size:
//
//   #       size         count    type   redop  root   time   algbw   busbw  #wrong  time ...
//     1073741824     268435456   float     sum    -1   8159   131.6  230.29       0  8176 ...
//   # Out of bounds values : 0 OK
//   # Avg bus bandwidth    : 68.4048
//
// The column "root" is missing in older versions; the last eight columns are always the same.
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "diag/import/job_output.h"
#include "diag/import/signal_list.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

class NcclTestsReader : public OutputReader {
 public:
  void Take(const OutputLine& line) override {
    std::string_view text = Trim(line.text);
    if (text.empty()) return;
    if (IsDigit(text[0])) {
      if (found_) Row(text);
      return;
    }
    if (text[0] != '#') return;
    if (text.starts_with("# nThread ")) found_ = true;
    if (const auto rest = Between(text, "# Avg bus bandwidth", "")) {
      found_ = true;
      if (const auto value = Between(*rest, ": ", "")) average_ = LeadingDecimal(Trim(*value));
    }
    const auto wrong = Between(text, "# Out of bounds values : ", "");
    if (!wrong || !wrong->ends_with("FAILED")) return;
    found_ = true;
    diag::HostSignal signal;
    signal.kind = diag::SignalKind::kNodeFault;
    if (const auto count = LeadingDecimal(*wrong)) signal.value = *count;
    signal.text = "nccl-tests got wrong results: " + std::string(*wrong);
    signal.source = line.Source();
    signals_.Add(std::move(signal));
  }

  bool found() const override { return found_; }

  void End(Fragment* fragment) override {
    signals_.MoveTo(fragment);
    std::string note = "nccl-tests";
    char number[96];
    if (busbw_) {
      std::snprintf(number, sizeof number, ": %.2f GB/s of bus bandwidth at %.1f MiB", *busbw_,
                    static_cast<double>(bytes_) / (1 << 20));
      note += number;
    }
    if (average_) {
      std::snprintf(number, sizeof number, "%s %.2f GB/s on average of all sizes",
                    busbw_ ? "," : ":", *average_);
      note += number;
    }
    fragment->notes.push_back(note);
  }

 private:
  void Row(std::string_view text) {
    std::vector<std::string_view> words;
    while (!text.empty() && words.size() < 16) words.push_back(TakeWord(&text));
    if (words.size() != 12 && words.size() != 13) return;
    const auto bytes = WholeNumber<uint64_t>(words[0]);
    const auto busbw = LeadingDecimal(words[words.size() - 6]);
    if (!bytes || !busbw) return;
    bytes_ = *bytes;
    busbw_ = busbw;
  }

  bool found_ = false;
  uint64_t bytes_ = 0;  // of the last row, the largest size
  std::optional<double> busbw_, average_;
  SignalList signals_;
};

}  // namespace

std::unique_ptr<OutputReader> MakeNcclTestsReader() { return std::make_unique<NcclTestsReader>(); }

}  // namespace flare::import
