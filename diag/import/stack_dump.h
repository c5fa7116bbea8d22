// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diag/import/fragment.h"
#include "diag/import/line_origin.h"
#include "diag/import/line_reader.h"
#include "diag/model/job.h"

// What the importers of stack dumps share: processes with their threads, told apart also when the
// dumps of many processes and hosts lie in one file, line by line.
namespace flare::import {

struct StackLimits {
  static constexpr size_t kProcesses = 100'000;    // of one file
  static constexpr size_t kThreads = 4096;         // of one process
  static constexpr size_t kFrames = 512;           // of one thread; the innermost are kept
  static constexpr size_t kAllFrames = 2'000'000;  // of one file; beside main threads half of them
  static constexpr size_t kNameBytes = 400;        // of a function or a file
};

struct DumpedProcess {
  Origin origin;
  int64_t pid = 0;  // 0 not told
  std::vector<diag::ThreadStack> threads;
  std::optional<size_t> main;  // index of its main thread, when the dump says which
  diag::Life life = diag::Life::kRunning;
  char run_state = 0;
};

// Collects processes within the limits. What is too much is counted and thrown away.
class StackDump {
 public:
  // A process or thread by number; one of those left out takes everything and keeps nothing.
  struct ThreadId {
    size_t process = 0, thread = 0;
  };

  size_t BeginProcess(const Origin& origin, int64_t pid);
  ThreadId BeginThread(size_t process, uint64_t id, std::string_view name, std::string_view state);
  // Frames come innermost first.
  void AddFrame(ThreadId thread, std::string_view function, std::string_view file, uint32_t line);
  // Null for those left out. Valid until the next process or thread begins.
  DumpedProcess* process(size_t number);
  diag::ThreadStack* thread(ThreadId id);

  void AddSignal(diag::HostSignal signal) { signals_.push_back(std::move(signal)); }
  void AddNote(std::string note);  // once, however often it is given

  // Makes ranks of all processes that have frames, and says what was left out. `python_stack` is
  // that of the main thread, which is called "MainThread" then: the one told, or else the only one
  // whose outermost Python frame is the program's own.
  void MoveTo(Fragment* fragment);

 private:
  size_t FrameLimit(ThreadId id, const diag::ThreadStack& stack) const;

  std::vector<DumpedProcess> processes_;
  std::vector<diag::HostSignal> signals_;
  std::vector<std::string> notes_;
  size_t frames_ = 0;
  uint64_t frames_left_out_ = 0, threads_left_out_ = 0, processes_left_out_ = 0;
};

bool IsPythonFile(std::string_view file);

// One reader of lines for each origin of a file: lines of many hosts may be mixed.
class DumpParser {
 public:
  virtual ~DumpParser() = default;
  virtual void Take(std::string_view line) = 0;
  virtual void End() {}
};

struct DumpFormat {
  // Whether a line begins a dump: only then is a prefix before it believed.
  bool (*begins)(std::string_view line);
  // `origin` outlives the parser.
  std::unique_ptr<DumpParser> (*make)(StackDump* dump, const Origin* origin);
};

// Reads a whole file, each line by the parser of its origin, and moves the processes to the
// fragment. An error when there are none.
Status ReadDump(Input* input, const DumpFormat& format, Fragment* fragment);

// Takes away the escape sequences with which a terminal is coloured.
std::string_view WithoutEscapes(std::string_view line, std::string* buffer);

}  // namespace flare::import
