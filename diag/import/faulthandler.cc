// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_set>
#include <vector>

#include "diag/import/importers.h"
#include "diag/import/stack_dump.h"
#include "diag/import/text_scan.h"

// What Python's faulthandler writes when a process crashes, a timer runs out or a signal asks:
//
//   Fatal Python error: Segmentation fault          (or "Timeout (0:05:00)!", or nothing)
//
//   Current thread 0x00007f41 (most recent call first):
//     File "/app/train.py", line 41 in train_step
//   Thread 0x00007f52 [watchdog] (most recent call first):
//     <no Python frame>
//
// A timer repeats its dump. Dumps that show the same thread are looks at one process: the last
// counts.
namespace flare::import {
namespace {

constexpr std::string_view kThreadEnd = "(most recent call first):";
constexpr std::string_view kFatal = "Fatal Python error: ";

struct ThreadHeader {
  uint64_t id = 0;
  std::string_view name;
};

// "Current thread 0x00007f41 [python3] (most recent call first):"
std::optional<ThreadHeader> ParseHeader(std::string_view line) {
  if (line.starts_with("Current thread 0x")) {
    line.remove_prefix(17);
  } else if (line.starts_with("Thread 0x")) {
    line.remove_prefix(9);
  } else {
    return std::nullopt;
  }
  if (!line.ends_with(kThreadEnd)) return std::nullopt;
  const auto id = WholeNumber<uint64_t>(TakeWord(&line), 16);
  if (!id) return std::nullopt;
  ThreadHeader header{*id, {}};
  if (const auto name = Between(line, "[", "]")) header.name = *name;
  return header;
}

bool BeginsDump(std::string_view line) {
  return line.starts_with(kFatal) || (line.starts_with("Timeout (") && line.ends_with(")!"));
}

class FaulthandlerParser : public DumpParser {
 public:
  FaulthandlerParser(StackDump* dump, const Origin* origin) : dump_(dump), origin_(origin) {}

  void Take(std::string_view line) override {
    if (BeginsDump(line)) {
      Begin();
      if (line.starts_with(kFatal)) TakeFatal(line);
    } else if (const auto header = ParseHeader(line)) {
      BeginThread(*header);
    } else if (line.starts_with("  ")) {
      TakeFrame(Trim(line));
    } else {
      thread_.reset();
    }
  }

  void End() override {
    KeepLastLooks();
    if (looks_ > 0) {
      dump_->AddNote(Counted(looks_, "earlier dump") +
                     " of the same threads left out: the last look counts");
    }
  }

 private:
  void Begin() {
    process_ = dump_->BeginProcess(*origin_, 0);
    own_.push_back(*process_);
    thread_.reset();
  }

  void TakeFatal(std::string_view line) {
    if (DumpedProcess* process = dump_->process(*process_)) process->life = diag::Life::kDied;
    diag::HostSignal signal;
    signal.kind = diag::SignalKind::kCrash;
    signal.node = origin_->node;
    signal.device = "python";
    signal.text = line.substr(0, 500);
    signal.source = "faulthandler";
    dump_->AddSignal(std::move(signal));
  }

  void BeginThread(const ThreadHeader& header) {
    const DumpedProcess* process = process_ ? dump_->process(*process_) : nullptr;
    const bool repeats =
        process != nullptr &&
        std::any_of(process->threads.begin(), process->threads.end(),
                    [&](const diag::ThreadStack& thread) { return thread.id == header.id; });
    if (!process_ || repeats) Begin();
    thread_ = dump_->BeginThread(*process_, header.id, header.name, "");
  }

  // "File "/app/train.py", line 41 in train_step"
  void TakeFrame(std::string_view text) {
    if (!thread_ || !text.starts_with("File \"")) return;
    text.remove_prefix(6);
    const size_t end = text.rfind("\", line ");
    if (end == std::string_view::npos) return;
    std::string_view rest = text.substr(end + 8);
    const auto line = LeadingNumber<uint32_t>(rest);
    const auto function = Between(rest, " in ", "");
    if (line && function) dump_->AddFrame(*thread_, *function, text.substr(0, end), *line);
  }

  // An earlier process that shares a thread with a later one is the same at an earlier time.
  void KeepLastLooks() {
    std::unordered_set<uint64_t> later;  // ids of the threads of later looks
    for (auto number = own_.rbegin(); number != own_.rend(); ++number) {
      DumpedProcess* process = dump_->process(*number);
      if (process == nullptr) continue;
      const bool seen =
          std::any_of(process->threads.begin(), process->threads.end(),
                      [&](const diag::ThreadStack& thread) { return later.contains(thread.id); });
      if (seen) {
        process->threads.clear();
        ++looks_;
        continue;
      }
      for (const diag::ThreadStack& thread : process->threads) later.insert(thread.id);
    }
  }

  StackDump* dump_;
  const Origin* origin_;
  std::vector<size_t> own_;
  std::optional<size_t> process_;
  std::optional<StackDump::ThreadId> thread_;
  uint64_t looks_ = 0;
};

bool Begins(std::string_view line) { return BeginsDump(line) || ParseHeader(line).has_value(); }

}  // namespace

int RecogniseFaulthandler(std::string_view head) {
  int sure = 0;
  ForEachLine(head, 4000, [&](std::string_view line) {
    if (ParseHeader(line) || ParseHeader(SplitPrefix(line).text)) sure = 85;
    return sure == 0;
  });
  return sure;
}

Status ReadFaulthandler(Input* input, Fragment* fragment) {
  const DumpFormat format = {
      Begins, [](StackDump* dump, const Origin* origin) -> std::unique_ptr<DumpParser> {
        return std::make_unique<FaulthandlerParser>(dump, origin);
      }};
  return ReadDump(input, format, fragment);
}

}  // namespace flare::import
