// SPDX-License-Identifier: Apache-2.0
// What torchrun (torch.distributed.elastic) sums up when a worker has failed:
//
//   torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
//   train.py FAILED
//   Root Cause (first observed failure):
//   [0]:
//     time      : 2024-01-01_12:00:00
//     host      : node1
//     rank      : 3 (local_rank: 3)
//     exitcode  : -9 (pid: 12345)
//     error_file: <N/A>
//     traceback : Signal 9 (SIGKILL) received by PID 12345
//
// The first failure is what counts: the others are its consequences, or the launcher's own doing.
#include <optional>
#include <string>
#include <utility>

#include "diag/import/job_output.h"
#include "diag/import/signal_list.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

class ElasticReader : public OutputReader {
 public:
  void Take(const OutputLine& line) override {
    const std::string_view text = Trim(line.text);
    if (Has(text, "Root Cause (first observed failure)")) {
      Finish();
      found_ = in_root_ = true;
      root_ = diag::HostSignal();
      root_.kind = diag::SignalKind::kException;
      root_.source = line.Source();
      return;
    }
    if (!in_root_) {
      if (Has(text, "ChildFailedError")) found_ = true;
      if (text.starts_with("rank ") && Has(text, "(local_rank:")) ++failures_;
      return;
    }
    if (text.starts_with("====")) return Finish();
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) return;
    const std::string_view key = Trim(text.substr(0, colon));
    const std::string_view value = Trim(text.substr(colon + 1));
    if (key == "host") root_.node = value;
    if (key == "rank") {
      if (const auto rank = LeadingNumber<uint32_t>(value)) root_.rank = Rank(*rank);
    }
    if (key == "exitcode") exit_code_ = LeadingNumber(value);
    if (key == "traceback") root_.text = value;
  }

  bool found() const override { return found_; }

  void End(Fragment* fragment) override {
    Finish();
    signals_.MoveTo(fragment);
    if (failures_ > 0) {
      fragment->notes.push_back("torchrun counts " + Counted(failures_, "failure") +
                                " after the first one; they are taken for its consequences");
    }
  }

 private:
  void Finish() {
    if (!in_root_) return;
    in_root_ = false;
    const int64_t code = exit_code_.value_or(1);
    exit_code_.reset();
    if (root_.text.empty()) root_.text = "no traceback";
    if (code < 0) {
      root_.kind = diag::SignalKind::kCrash;
      root_.code = -code;
    } else {
      root_.code = code;
      root_.text = "ended with status " + std::to_string(code) + ": " + root_.text;
    }
    signals_.Add(std::move(root_));
  }

  bool found_ = false, in_root_ = false;
  diag::HostSignal root_;
  std::optional<int64_t> exit_code_;
  uint64_t failures_ = 0;
  SignalList signals_;
};

}  // namespace

std::unique_ptr<OutputReader> MakeElasticReader() { return std::make_unique<ElasticReader>(); }

}  // namespace flare::import
