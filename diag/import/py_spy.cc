// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "diag/import/importers.h"
#include "diag/import/stack_dump.h"
#include "diag/import/text_scan.h"

// The text of `py-spy dump`, with --native and --locals, of any number of processes:
//
//   Process 4242: python train.py
//   Python v3.10.12 (/usr/bin/python3.10)
//
//   Thread 4242 (idle): "MainThread"
//       wait (threading.py:306)
//           Locals:
//               self: <Condition(...)>
//
// People pass these on shortened. Without "Process" lines each main thread begins a process. Main
// threads listed right under each other share the stack that follows. A lone word (a host) above
// indented lone words lists the innermost functions of processes.
namespace flare::import {
namespace {

constexpr std::string_view kMainThread = "MainThread";
// Processes that may share one stack: more are listed apart.
constexpr size_t kMostSharing = 1024;

struct ThreadHeader {
  uint64_t id = 0;
  bool decimal = false;  // a thread id of the system: that of a main thread is the process id
  std::string_view state;
  std::string_view name;
};

bool IsState(std::string_view state) {
  for (std::string_view part : {"active", "idle", "gil"}) {
    if (Has(state, part)) return state.size() < 32 && !Has(state, "(");
  }
  return false;
}

// "Thread 4242 (idle): "MainThread"", "Thread 0x7F0C (active+gil)".
std::optional<ThreadHeader> ParseHeader(std::string_view line) {
  if (!line.starts_with("Thread ")) return std::nullopt;
  line.remove_prefix(7);
  const size_t open = line.find(" (");
  const size_t close = line.find(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  std::string_view id = line.substr(0, open);
  ThreadHeader header;
  header.decimal = !id.starts_with("0x") && !id.starts_with("0X");
  if (!header.decimal) id.remove_prefix(2);
  const auto number = WholeNumber<uint64_t>(id, header.decimal ? 10 : 16);
  header.state = line.substr(open + 2, close - open - 2);
  if (!number || !IsState(header.state)) return std::nullopt;
  header.id = *number;
  if (const auto name = Between(line.substr(close), "\"", "\"")) header.name = *name;
  return header;
}

bool IsWord(std::string_view text) {
  return !text.empty() && text.find_first_of(" \t()\"':;,=|/\\{}") == std::string_view::npos;
}

size_t Indent(std::string_view line) {
  size_t indent = 0;
  for (char c : line) {
    if (!IsSpace(c)) break;
    indent += c == '\t' ? 4 : 1;
  }
  return indent;
}

class PySpyParser : public DumpParser {
 public:
  PySpyParser(StackDump* dump, const Origin* origin) : dump_(dump), origin_(origin) {}

  void Take(std::string_view line) override {
    const size_t indent = Indent(line);
    const std::string_view text = Trim(line);
    if (text.empty() || text.front() == '#') {
      headers_open_ = false;
      if (!text.empty()) threads_.clear();
    } else if (indent == 0) {
      TakeHeading(text);
    } else if (indent < 8) {  // deeper ones are arguments and local variables
      TakeFrame(text);
    }
  }

 private:
  void TakeHeading(std::string_view text) {
    if (const auto header = ParseHeader(text)) {
      BeginThread(*header);
      return;
    }
    threads_.clear();
    if (text.starts_with("Process ")) {
      if (const auto pid = LeadingNumber(text.substr(8))) {
        process_ = dump_->BeginProcess(*origin_, *pid);
        told_ = true;
        has_main_ = false;
      }
      list_.reset();
    } else if (IsWord(text)) {
      list_ = Origin{std::string(text), {}};
    } else {
      list_.reset();
    }
  }

  void BeginThread(const ThreadHeader& header) {
    list_.reset();
    const bool main = header.name == kMainThread;
    const bool shares = headers_open_ && main && last_is_main_ && threads_.size() < kMostSharing;
    if (!shares) threads_.clear();
    if (!process_ || (main && has_main_)) {
      process_ = dump_->BeginProcess(*origin_, 0);
      told_ = has_main_ = false;
    }
    if (shares) {
      dump_->AddNote("processes listed right under each other are taken to share one stack");
    }
    const StackDump::ThreadId thread =
        dump_->BeginThread(*process_, header.id, header.name, header.state);
    threads_.push_back(thread);
    if (DumpedProcess* process = dump_->process(*process_)) {
      if (!told_ && main && header.decimal) process->pid = static_cast<int64_t>(header.id);
      const bool is_process = header.decimal && process->pid == static_cast<int64_t>(header.id);
      if (main || (told_ && is_process)) process->main = thread.thread;
    }
    has_main_ = has_main_ || main;
    headers_open_ = true;
    last_is_main_ = main;
  }

  // "wait (threading.py:306)", "__poll (libc.so.6)", or a lone word in a list.
  void TakeFrame(std::string_view text) {
    headers_open_ = false;
    if (list_) {
      if (!IsWord(text)) return;
      const size_t process = dump_->BeginProcess(*list_, 0);
      dump_->AddFrame(dump_->BeginThread(process, 0, kMainThread, ""), text, "", 0);
      dump_->AddNote(
          "some processes are listed by their innermost function only; one that is also given "
          "with its whole stack counts twice");
      return;
    }
    const size_t open = text.rfind(" (");
    if (threads_.empty() || open == std::string_view::npos || !text.ends_with(')')) return;
    std::string_view file = text.substr(open + 2, text.size() - open - 3);
    uint32_t line = 0;
    if (const size_t colon = file.rfind(':'); colon != std::string_view::npos) {
      if (const auto number = WholeNumber<uint32_t>(file.substr(colon + 1))) {
        line = *number;
        file = file.substr(0, colon);
      }
    }
    for (const StackDump::ThreadId thread : threads_) {
      dump_->AddFrame(thread, text.substr(0, open), file, line);
    }
  }

  StackDump* dump_;
  const Origin* origin_;
  std::optional<size_t> process_;
  bool told_ = false;                         // the process has a line of its own
  bool has_main_ = false;                     // and a main thread already
  std::vector<StackDump::ThreadId> threads_;  // that the next frames belong to
  bool headers_open_ = false;                 // the line before was a header
  bool last_is_main_ = false;
  std::optional<Origin> list_;
};

bool Begins(std::string_view line) {
  if (ParseHeader(line)) return true;
  return line.starts_with("Process ") && LeadingNumber(line.substr(8)) && Has(line, ": ");
}

}  // namespace

int RecognisePySpy(std::string_view head) {
  int sure = 0;
  std::string buffer;
  ForEachLine(head, 4000, [&](std::string_view raw) {
    const std::string_view line = WithoutEscapes(raw, &buffer);
    if (ParseHeader(line) || ParseHeader(SplitPrefix(line).text)) sure = 90;
    return sure == 0;
  });
  return sure;
}

Status ReadPySpy(Input* input, Fragment* fragment) {
  const DumpFormat format = {
      Begins, [](StackDump* dump, const Origin* origin) -> std::unique_ptr<DumpParser> {
        return std::make_unique<PySpyParser>(dump, origin);
      }};
  return ReadDump(input, format, fragment);
}

}  // namespace flare::import
