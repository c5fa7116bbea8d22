// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "diag/import/dcgm_items.h"
#include "diag/import/importers.h"
#include "diag/import/line_reader.h"
#include "diag/import/text_scan.h"

// The tables of `dcgmi diag` and `dcgmi health`:
//
//   | Diagnostic                | Result                    |   | Overall Health  | Failure      |
//   |-----  Integration  -------+---------------------------|   | -> 2            | Failure      |
//   | PCIe                      | Fail - GPU: 2             |   |    -> Errors    |              |
//   | Warning                   | GPU 2: too many replays   |   |  -> PCIe system | Warning      |
//                                                               |                 | 9 replays .. |
namespace flare::import {
namespace {

constexpr size_t kWordsBytes = 500;

// "Fail - GPUs: 2, 3": every GPU in it; one empty name when there is none.
std::vector<std::string> GpusOf(std::string_view result) {
  std::vector<std::string> gpus;
  const size_t begin = result.find("GPU");
  std::string digits;
  for (size_t i = begin; i < result.size() && gpus.size() < 64; ++i) {
    if (IsDigit(result[i])) digits += result[i];
    const bool ends = i + 1 == result.size() || !IsDigit(result[i + 1]);
    if (ends && !digits.empty()) gpus.push_back(std::exchange(digits, {}));
  }
  if (gpus.empty()) gpus.emplace_back();
  return gpus;
}

class TableReader {
 public:
  void Take(std::string_view line, uint64_t number) {
    line = Trim(line);
    if (!line.starts_with('|') || line.starts_with("|--") || line.starts_with("|==")) return;
    line.remove_prefix(1);
    const size_t bar = line.find('|');
    if (bar == std::string_view::npos) return;
    std::string_view name = Trim(line.substr(0, bar));
    const std::string_view result = Trim(line.substr(bar + 1, line.rfind('|') - bar - 1));
    while (name.starts_with("->")) name = Trim(name.substr(2));
    ++rows_;
    if (SaysWords(name)) {
      for (DcgmItem& item : open_) {
        if (item.words.size() < kWordsBytes) {
          item.words +=
              (item.words.empty() ? "" : " ") + std::string(result.substr(0, kWordsBytes));
        }
      }
      return;
    }
    Close();
    if (const auto gpu = WholeNumber<uint32_t>(name)) {
      gpu_ = std::to_string(*gpu);
      return;
    }
    if (name == "Overall Health" || name == "GPU" || name == "Errors") return;
    if (!SaysFail(result) && !SaysWarn(result)) return;
    for (std::string& gpu : GpusOf(result)) {
      DcgmItem& item = open_.emplace_back();
      item.gpu = gpu.empty() ? gpu_ : std::move(gpu);
      item.test = name.substr(0, 80);
      item.failed = SaysFail(result);
      item.source = "dcgmi, line " + std::to_string(number);
    }
  }

  void MoveTo(Fragment* fragment) {
    Close();
    signals_.MoveTo(fragment);
  }

  uint64_t rows() const { return rows_; }

 private:
  // Rows that go on with the one before: "", "Warning", "Error", "Info".
  static bool SaysWords(std::string_view name) {
    return name.empty() || name.starts_with("Warning") || name.starts_with("Error:") ||
           name == "Error" || name.starts_with("Info");
  }

  void Close() {
    for (const DcgmItem& item : open_) AddDcgmItem(item, &signals_);
    open_.clear();
  }

  SignalList signals_;
  std::vector<DcgmItem> open_;
  std::string gpu_;
  uint64_t rows_ = 0;
};

}  // namespace

int RecogniseDcgm(std::string_view head) {
  const bool diagnostic = Has(head, "| Diagnostic ") && Has(head, "| Result ");
  const bool health = Has(head, "Health Monitor Report") || Has(head, "| Overall Health ");
  return (diagnostic || health) && Has(head, "+--") ? 90 : 0;
}

Status ReadDcgm(Input* input, Fragment* fragment) {
  TableReader reader;
  LineReader lines(input);
  while (const auto line = lines.Next()) reader.Take(*line, lines.number());
  reader.MoveTo(fragment);
  lines.AddNotes(fragment);
  return reader.rows() == 0 ? Status::Error("no row of a dcgmi table can be read") : Status::Ok();
}

}  // namespace flare::import
