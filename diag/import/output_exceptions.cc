// SPDX-License-Identifier: Apache-2.0
// Exceptions that end a process, as its output shows them: a Python traceback, or what
// std::terminate writes. The last one of a chain counts; those that only say that a peer has gone
// are told apart.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "diag/import/job_output.h"
#include "diag/import/signal_list.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

using diag::HostSignal;
using diag::SignalKind;

constexpr size_t kMostWriters = 10'000;

// A writer of lines: a rank, or a process that a launcher marks otherwise ("[default3]").
struct Writer {
  bool traceback = false;  // between the heading and the exception
  std::string place;       // innermost frame seen: "train_step (train.py:41)"
  bool terminate = false;  // after "terminate called"
  std::string type;        // of the C++ exception
};

bool IsWord(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
  });
}

// "torch.OutOfMemoryError: CUDA out of memory" begins with the name of a class.
bool IsExceptionLine(std::string_view line) {
  const std::string_view name = line.substr(0, line.find(':'));
  if (!IsWord(name) || IsDigit(name[0])) return false;
  for (const std::string_view end :
       {"Error", "Exception", "Interrupt", "Exit", "StopIteration", "Warning", "Expired"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

// '  File "/opt/train.py", line 41, in train_step' to "train_step (train.py:41)".
std::string PlaceOf(std::string_view line) {
  const auto file = Between(line, "File \"", "\"");
  const auto rest = Between(line, "\", line ", "");
  if (!file || !rest) return "";
  const auto number = LeadingNumber(*rest);
  const auto function = Between(*rest, ", in ", "");
  const std::string_view name = file->substr(file->rfind('/') + 1);
  return std::string(function.value_or("?")) + " (" + std::string(name) + ":" +
         std::to_string(number.value_or(0)) + ")";
}

bool AnyOf(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return Has(text, part); });
}

// Codes of cudaError_t that the texts stand for.
std::optional<int64_t> CudaCode(std::string_view text) {
  if (Has(text, "out of memory")) return 2;
  if (Has(text, "uncorrectable ECC error")) return 214;
  if (Has(text, "illegal memory access")) return 700;
  if (Has(text, "device-side assert")) return 710;
  if (Has(text, "misaligned address")) return 716;
  if (Has(text, "unspecified launch failure")) return 719;
  if (Has(text, "unknown error")) return 999;
  return std::nullopt;
}

std::optional<int64_t> NcclCode(std::string_view text) {
  if (Has(text, "unhandled cuda error")) return 1;
  if (Has(text, "unhandled system error") || Has(text, "ncclSystemError")) return 2;
  if (Has(text, "internal error") || Has(text, "ncclInternalError")) return 3;
  if (Has(text, "invalid argument") || Has(text, "ncclInvalidArgument")) return 4;
  if (Has(text, "invalid usage") || Has(text, "ncclInvalidUsage")) return 5;
  if (Has(text, "remote process") || Has(text, "ncclRemoteError")) return 6;
  return std::nullopt;
}

class ExceptionReader : public OutputReader {
 public:
  void Take(const OutputLine& line) override {
    const std::string_view text = line.text;
    // Nearly all lines end here.
    if (writers_.empty() && !Has(text, "Traceback (most") && !Has(text, "terminate called") &&
        !Has(text, "  File \"")) {
      return;
    }
    const std::string_view prefix =
        line.whole.substr(0, static_cast<size_t>(text.data() - line.whole.data()));
    const auto known = writers_.find(prefix);
    if (known == writers_.end() && writers_.size() >= kMostWriters) return;
    Writer& writer = known != writers_.end() ? known->second : writers_[std::string(prefix)];
    Read(line, &writer);
  }

  bool found() const override { return found_; }
  void End(Fragment* fragment) override { signals_.MoveTo(fragment); }

 private:
  void Read(const OutputLine& line, Writer* writer) {
    const std::string_view text = line.text;
    if (Has(text, "Traceback (most recent call last)") || text.starts_with("  File \"")) {
      writer->traceback = true;
      std::string place = PlaceOf(text);
      if (!place.empty()) writer->place = std::move(place);
      return;
    }
    if (const auto type = Between(text, "terminate called after throwing an instance of '", "'")) {
      writer->terminate = true;
      writer->type = *type;
      found_ = true;
      return;
    }
    const std::string_view trimmed = Trim(text);
    if (writer->terminate && trimmed.starts_with("what():")) {
      writer->terminate = false;
      return Tell(writer->type, std::string(Trim(trimmed.substr(7))), "", line);
    }
    if (!writer->traceback || text.empty() || IsSpace(text[0])) return;
    writer->traceback = false;
    if (!IsExceptionLine(text)) return;
    const size_t colon = text.find(':');
    const std::string_view message =
        colon == std::string_view::npos ? "" : Trim(text.substr(colon + 1));
    Tell(std::string(text.substr(0, colon)), std::string(message), std::move(writer->place), line);
    writer->place.clear();
  }

  void Tell(const std::string& type, const std::string& message, const std::string& place,
            const OutputLine& line) {
    found_ = true;
    // Ended from outside, or as planned.
    if (AnyOf(type, {"KeyboardInterrupt", "SystemExit", "SignalException", "ChildFailedError"}))
      return;
    HostSignal signal;
    signal.kind = SignalKind::kException;
    signal.rank = line.origin.rank;
    signal.node = line.origin.node;
    if (!signal.rank) signal.device = LocalRank(line);
    signal.text = message.empty() ? type : type + ": " + message;
    if (!place.empty()) signal.text += ", in " + place;
    signal.source = line.Source();
    const std::string whole = type + ": " + message;
    if (AnyOf(whole, {"CUDA error", "CUDA out of memory", "HIP error", "HIP out of memory",
                      "CUDAError"})) {
      signal.kind = SignalKind::kCudaError;
      signal.code = CudaCode(whole);
    } else if (AnyOf(whole, {"NCCL error", "NCCL Error", "DistBackendError",
                             "NCCL communicator was aborted"})) {
      signal.kind = SignalKind::kNcclError;
      signal.code = NcclCode(whole);
    } else if (AnyOf(whole, {"onnection closed by peer", "onnection reset by peer", "Broken pipe",
                             "onnection was likely closed", "failed to connect", "Socket Timeout",
                             "wait timeout", "Timed out waiting"})) {
      signal.kind = SignalKind::kNcclError;
      signal.code = 6;
    }
    signals_.Add(std::move(signal));
  }

  // "[default3]" is the fourth process of its node.
  static std::string LocalRank(const OutputLine& line) {
    const auto mark = Between(line.whole, "[default", "]");
    if (!line.whole.starts_with("[default") || !mark) return "";
    const auto place = WholeNumber<uint32_t>(*mark);
    return place ? "local rank " + std::to_string(*place) : "";
  }

  bool found_ = false;
  std::map<std::string, Writer, std::less<>> writers_;
  SignalList signals_;
};

}  // namespace

std::unique_ptr<OutputReader> MakeExceptionReader() { return std::make_unique<ExceptionReader>(); }

}  // namespace flare::import
