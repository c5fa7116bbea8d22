// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "diag/import/importers.h"
#include "diag/import/line_reader.h"
#include "diag/import/signal_list.h"
#include "diag/import/smi_query.h"
#include "diag/import/text_scan.h"

// Output of nvidia-smi, any number of times in one file: `-q`, the table it prints without options,
// `nvlink -s`, and what it says when a GPU cannot be reached.
namespace flare::import {
namespace {

using diag::HostSignal;
using diag::SignalKind;

// "GPU 3: Tesla V100-SXM2-32GB (UUID: GPU-..)" and "Link 0: 25.781 GB/s" below.
class NvlinkStatus {
 public:
  bool Take(std::string_view text, uint64_t number) {
    if (text.starts_with("GPU ") && Has(text, "(UUID: ")) {
      const auto index = LeadingNumber(text.substr(4));
      if (!index) return false;
      if (gpus_.size() < 4096) {
        Gpu& gpu = gpus_.emplace_back();
        gpu.index = *index;
        gpu.line = number;
        gpu.model = Trim(Between(text, ": ", "(UUID").value_or("").substr(0, 80));
      }
      return true;
    }
    if (gpus_.empty()) return false;
    if (text.starts_with("Link ") && Has(text, ": ")) {
      const std::string_view state = Trim(text.substr(text.find(": ") + 2));
      if (state == "<inactive>") {
        ++gpus_.back().down;
        gpus_.back().links += (gpus_.back().links.empty() ? "" : ", ") +
                              std::to_string(LeadingNumber(text.substr(5)).value_or(-1));
        gpus_.back().links.resize(std::min<size_t>(gpus_.back().links.size(), 200));
      } else if (LeadingDecimal(state).value_or(0) > 0) {
        ++gpus_.back().up;
      }
      return true;
    }
    if (Has(text, "all links are inactive")) {
      gpus_.back().all_down = true;
      return true;
    }
    return false;
  }

  void AddTo(SignalList* signals) const {
    std::map<std::string_view, int64_t> best;  // links up, by model
    for (const Gpu& gpu : gpus_) best[gpu.model] = std::max(best[gpu.model], gpu.up);
    for (const Gpu& gpu : gpus_) {
      if (gpu.down == 0 && !gpu.all_down) continue;
      HostSignal signal;
      signal.kind = SignalKind::kNvlinkDown;
      signal.device = "GPU " + std::to_string(gpu.index);
      const int64_t elsewhere = best[gpu.model];
      if (elsewhere > 0) signal.code = elsewhere;
      const int64_t down = gpu.all_down ? std::max(elsewhere, gpu.down) : gpu.down;
      if (down > 0) signal.value = static_cast<double>(down);
      signal.text =
          gpu.model + ": " +
          (gpu.all_down ? "all NVLinks" : (gpu.down == 1 ? "NVLink " : "NVLinks ") + gpu.links) +
          " inactive";
      signal.source = "nvidia-smi nvlink -s, line " + std::to_string(gpu.line);
      signals->Add(std::move(signal));
    }
  }

 private:
  struct Gpu {
    int64_t index = 0;
    std::string model;
    int64_t up = 0, down = 0;
    bool all_down = false;
    std::string links;  // that are down
    uint64_t line = 0;
  };
  std::vector<Gpu> gpus_;
};

class SmiReader {
 public:
  void Take(std::string_view line, uint64_t number) {
    const std::string_view text = Trim(line);
    if (Has(text, "==NVSMI LOG==")) {
      EndQuery();
      in_query_ = true;
      query_line_ = number;
    } else if (text.starts_with("####") || text.starts_with("+--")) {
      EndQuery();
    } else if (in_query_) {
      if (!TakeError(text, number)) query_.Take(line);
    } else if (text.starts_with('|')) {
      TakeRow(text, number);
    } else if (!nvlink_.Take(text, number)) {
      TakeError(text, number);
    }
  }

  void MoveTo(Fragment* fragment) {
    EndQuery();
    nvlink_.AddTo(&signals_);
    signals_.MoveTo(fragment);
    for (std::string& note : notes_) fragment->notes.push_back(std::move(note));
  }

 private:
  void EndQuery() {
    if (in_query_) query_.Finish(query_line_, &signals_, &notes_);
    in_query_ = false;
  }

  // "|   0  Tesla V100-SXM2...  Off  | 00000001:00:00.0 Off |                    0 |": the last
  // column of a GPU's first row counts uncorrectable errors since the driver was loaded.
  void TakeRow(std::string_view row, uint64_t number) {
    std::vector<std::string_view> cells;
    row.remove_prefix(1);
    while (!row.empty() && cells.size() < 8) {
      const size_t bar = row.find('|');
      if (bar == std::string_view::npos) break;
      cells.push_back(Trim(row.substr(0, bar)));
      row.remove_prefix(bar + 1);
    }
    if (cells.size() != 3 || !LeadingNumber(cells[0])) return;
    std::string_view place = cells[1];
    const std::string_view address = TakeWord(&place);
    if (std::count(address.begin(), address.end(), ':') != 2) return;
    if (Has(cells[2], "ERR!") || Has(cells[1], "ERR!")) {
      Add(SignalKind::kNodeFault, address, "the table shows ERR! for this GPU", number);
      return;
    }
    const auto errors = WholeNumber(cells[2]);
    if (!errors || *errors <= 0) return;
    HostSignal signal;
    signal.kind = SignalKind::kEcc;
    signal.code = static_cast<int64_t>(diag::EccFact::kVolatileUncorrectable);
    signal.value = static_cast<double>(*errors);
    signal.device = address;
    signal.text =
        std::to_string(*errors) + " uncorrectable memory errors since the driver was loaded";
    signal.source = "nvidia-smi, line " + std::to_string(number);
    signals_.Add(std::move(signal));
  }

  bool TakeError(std::string_view text, uint64_t number) {
    if (Has(text, "GPU is lost") || Has(text, "Unable to determine the device handle")) {
      // "... for GPU0000:9B:00.0: Unknown Error", "... gpu 0000:9B:00.0: GPU is lost."
      std::string_view address = Between(text, "for GPU", ": ").value_or("");
      if (address.empty()) address = Between(text, "gpu ", ": ").value_or("");
      Add(SignalKind::kGpuLost, Trim(address), text, number);
    } else if (text.starts_with("NVIDIA-SMI has failed") || text == "No devices were found") {
      Add(SignalKind::kNodeFault, "NVIDIA driver", text, number);
    } else if (Has(text, "infoROM is corrupted at gpu ")) {
      Add(SignalKind::kNodeFault, *Between(text, "at gpu ", " "), text, number);
    } else {
      return false;
    }
    return true;
  }

  void Add(SignalKind kind, std::string_view device, std::string_view text, uint64_t number) {
    HostSignal signal;
    signal.kind = kind;
    signal.device = device;
    signal.text = text;
    signal.source = "nvidia-smi, line " + std::to_string(number);
    signals_.Add(std::move(signal));
  }

  SignalList signals_;
  SmiQuery query_;
  NvlinkStatus nvlink_;
  bool in_query_ = false;
  uint64_t query_line_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace

int RecogniseNvidiaSmi(std::string_view head) {
  if (Has(head, "==NVSMI LOG==")) return 95;
  int sure = 0;
  bool gpu = false;
  ForEachLine(head, 2000, [&](std::string_view line) {
    const std::string_view text = Trim(line);
    if (text.starts_with("| NVIDIA-SMI ")) sure = 90;
    if (gpu && (text.starts_with("Link ") || Has(text, "NVLink") || Has(text, "Nvlink"))) sure = 85;
    gpu = gpu || (text.starts_with("GPU ") && Has(text, "(UUID: "));
    if (text.starts_with("NVIDIA-SMI has failed") || text == "No devices were found" ||
        text.starts_with("Unable to determine the device handle for ")) {
      sure = 75;
    }
    return sure == 0;
  });
  if (sure == 0 && Has(head, "NVIDIA System Management Interface -- v")) sure = 50;
  return sure;
}

Status ReadNvidiaSmi(Input* input, Fragment* fragment) {
  SmiReader reader;
  LineReader lines(input);
  while (const auto line = lines.Next()) reader.Take(*line, lines.number());
  reader.MoveTo(fragment);
  lines.AddNotes(fragment);
  return lines.number() == 0 ? lines.status() : Status::Ok();
}

}  // namespace flare::import
