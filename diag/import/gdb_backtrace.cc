// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "diag/import/importers.h"
#include "diag/import/stack_dump.h"
#include "diag/import/text_scan.h"

// gdb's `bt` and `thread apply all bt`, gstack and pstack, with the Python frames that CPython's
// gdb extension puts into the arguments, or that `py-bt` lists after them:
//
//   Thread 2 (Thread 0x7f11 (LWP 4243) "pt_autograd_0"):
//   #0  0x00007f in pthread_cond_wait@@GLIBC_2.3.2 () from /lib64/libpthread.so.0
//   #1  _PyEval_EvalFrameDefault (tstate=0x1, f=Frame 0x2, for file /app/train.py, line 41, in
//       train_step (loss=1), throwflag=0) at Python/ceval.c:741
//
// Thread 1 is the main thread and its LWP the process id. A number of a thread that comes again, or
// a second "#0" without a thread, begins another process.
namespace flare::import {
namespace {

struct ThreadHeader {
  uint64_t number = 0;
  uint64_t lwp = 0;
  std::string_view name;
};

std::optional<ThreadHeader> ParseHeader(std::string_view line) {
  if (!line.starts_with("Thread ") || !line.ends_with(':') || !Has(line, "(")) return std::nullopt;
  const auto number = LeadingNumber<uint64_t>(line.substr(7));
  const auto lwp = Between(line, "(LWP ", ")");
  if (!number || (!lwp && !Has(line, "(Thread 0x"))) return std::nullopt;
  ThreadHeader header;
  header.number = *number;
  if (lwp) header.lwp = LeadingNumber<uint64_t>(*lwp).value_or(0);
  if (const auto name = Between(line, "\"", "\"")) header.name = *name;
  return header;
}

// "#12 0x00007f in f (a=1) at f.cc:3": the text after the number, or nullopt.
std::optional<std::string_view> FrameText(std::string_view line, uint64_t* number) {
  if (!line.starts_with('#')) return std::nullopt;
  line.remove_prefix(1);
  const std::string_view digits = TakeWord(&line);
  const auto parsed = WholeNumber<uint64_t>(digits);
  if (!parsed) return std::nullopt;
  *number = *parsed;
  return line;
}

// Without the list of arguments at its end: "f<int> (a=1)" to "f<int>". Brackets inside strings may
// be unbalanced; then everything from the first " (" goes.
std::string_view WithoutArguments(std::string_view text) {
  if (!text.ends_with(')')) return text;
  size_t depth = 0;
  for (size_t i = text.size(); i-- > 0;) {
    if (text[i] == ')') ++depth;
    if (text[i] == '(' && --depth == 0) return Trim(text.substr(0, i));
  }
  return Trim(text.substr(0, text.find(" (")));
}

class GdbParser : public DumpParser {
 public:
  GdbParser(StackDump* dump, const Origin* origin) : dump_(dump), origin_(origin) {}

  void Take(std::string_view line) override {
    uint64_t number = 0;
    if (const auto text = FrameText(line, &number)) {
      EndFrame();
      BeginFrame(number);
      frame_ = *text;
    } else if (line.starts_with("    ") && !frame_.empty()) {
      // A long frame goes on in the next line.
      if (frame_.size() < LineReader::kLongestLine) frame_.append(" ").append(Trim(line));
    } else {
      EndFrame();
      if (const auto header = ParseHeader(line)) {
        BeginThread(*header);
      } else {
        TakeOther(line);
      }
    }
  }

  void End() override { EndFrame(); }

 private:
  // gdb counts down to thread 1, or up from it when asked to.
  bool BelongsToNext(uint64_t number) const {
    if (first_number_ == 0) return false;
    const bool counted_down = first_number_ > 1 && last_number_ == 1;
    const bool starts_higher = last_number_ == 1 && number > 2;
    return number == first_number_ || number == last_number_ || counted_down || starts_higher;
  }

  void BeginThread(const ThreadHeader& header) {
    if (!process_ || BelongsToNext(header.number)) BeginProcess(0);
    if (first_number_ == 0) first_number_ = header.number;
    last_number_ = header.number;
    thread_ = dump_->BeginThread(*process_, header.lwp, header.name, "");
    DumpedProcess* process = dump_->process(*process_);
    if (process == nullptr) return;
    if (header.number == 1) {
      process->main = thread_->thread;
      if (process->pid == 0) process->pid = static_cast<int64_t>(header.lwp);
    }
  }

  void BeginProcess(int64_t pid) {
    process_ = dump_->BeginProcess(*origin_, pid);
    thread_.reset();
    first_number_ = last_number_ = 0;
    alone_ = false;
  }

  void BeginFrame(uint64_t number) {
    python_list_ = false;
    if (number == 0 && alone_) process_.reset();
    if (!process_) BeginProcess(0);
    if (!thread_) {
      thread_ = dump_->BeginThread(*process_, 0, "", "");
      alone_ = true;
    }
  }

  void TakeOther(std::string_view line) {
    if (line.starts_with("Attaching to ")) {
      if (const auto pid = Between(line, "process ", "")) {
        BeginProcess(LeadingNumber(*pid).value_or(0));
      }
    } else if (line.starts_with("Traceback (most recent call first):")) {
      python_list_ = thread_.has_value();
    } else if (python_list_ && line.starts_with("  File \"")) {
      TakePythonFrame(Trim(line));
    }
  }

  // Of py-bt: "File "/app/train.py", line 41, in train_step".
  void TakePythonFrame(std::string_view text) {
    const auto file = Between(text, "File \"", "\"");
    const auto line = Between(text, "\", line ", "");
    const auto function = Between(text, ", in ", "");
    if (!file || !line || !function) return;
    dump_->AddFrame(*thread_, WithoutArguments(*function), *file,
                    LeadingNumber<uint32_t>(*line).value_or(0));
  }

  void EndFrame() {
    if (frame_.empty() || !thread_) return;
    std::string_view text = frame_;
    if (text.starts_with("0x")) {
      const size_t in = text.find(" in ");
      if (in != std::string_view::npos) text.remove_prefix(in + 4);
    }
    // The extension's "Frame 0x.., for file F, line N, in f (": the Python frame that this call of
    // the interpreter runs.
    const auto python = Between(text, "Frame 0x", "");
    const auto file = python ? Between(*python, ", for file ", ", line ") : std::nullopt;
    if (file) {
      const std::string_view rest = python->substr(python->find(", line ") + 7);
      const auto function = Between(rest, ", in ", " (");
      dump_->AddFrame(*thread_, function.value_or("?"), *file,
                      LeadingNumber<uint32_t>(rest).value_or(0));
    } else {
      AddNativeFrame(text);
    }
    frame_.clear();
  }

  void AddNativeFrame(std::string_view text) {
    std::string_view file;
    uint32_t line = 0;
    const size_t from = text.rfind(" from ");
    const size_t at = text.rfind(" at ");
    if (from != std::string_view::npos && text.find(')', from) == std::string_view::npos) {
      file = Trim(text.substr(from + 6));
      text = text.substr(0, from);
    } else if (at != std::string_view::npos && text.find(')', at) == std::string_view::npos) {
      file = Trim(text.substr(at + 4));
      text = text.substr(0, at);
      if (const size_t colon = file.rfind(':'); colon != std::string_view::npos) {
        line = WholeNumber<uint32_t>(file.substr(colon + 1)).value_or(0);
        if (line != 0) file = file.substr(0, colon);
      }
    }
    const std::string_view function = WithoutArguments(Trim(text));
    dump_->AddFrame(*thread_, function.empty() ? "??" : function, file, line);
  }

  StackDump* dump_;
  const Origin* origin_;
  std::optional<size_t> process_;
  std::optional<StackDump::ThreadId> thread_;
  uint64_t first_number_ = 0, last_number_ = 0;  // of the threads of this process
  bool alone_ = false;                           // `bt` without a thread
  bool python_list_ = false;
  std::string frame_;
};

bool IsFirstFrame(std::string_view line) { return line.starts_with("#0  ") && Has(line, " ("); }

bool Begins(std::string_view line) { return ParseHeader(line) || IsFirstFrame(line); }

}  // namespace

int RecogniseGdbBacktrace(std::string_view head) {
  int sure = 0;
  ForEachLine(head, 4000, [&](std::string_view line) {
    if (Begins(line) || Begins(SplitPrefix(line).text)) sure = 80;
    return sure == 0;
  });
  return sure;
}

Status ReadGdbBacktrace(Input* input, Fragment* fragment) {
  const DumpFormat format = {
      Begins, [](StackDump* dump, const Origin* origin) -> std::unique_ptr<DumpParser> {
        return std::make_unique<GdbParser>(dump, origin);
      }};
  return ReadDump(input, format, fragment);
}

}  // namespace flare::import
