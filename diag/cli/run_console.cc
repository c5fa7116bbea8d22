// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/run_console.h"

#include <unistd.h>

#include <chrono>

#include "diag/cli/terminal.h"

namespace flare::cli {
namespace {

constexpr size_t kFewestRows = 5;
constexpr std::chrono::milliseconds kPatience(500);
// Save and restore the cursor: what is between them does not move the command's output.
constexpr const char* kSave =
    "\x1b"
    "7";
constexpr const char* kRestore =
    "\x1b"
    "8";

// Writing from the background would stop us (stty tostop) or garble another program's screen.
bool InForeground() { return tcgetpgrp(STDERR_FILENO) == getpgrp(); }

std::string MoveTo(size_t row) { return "\x1b[" + std::to_string(row) + ";1H"; }

}  // namespace

RunConsole::RunConsole(bool quiet, bool progress)
    : quiet_(quiet),
      live_(!quiet && progress && IsCapableTerminal(STDERR_FILENO)),
      text_options_(TextOptionsFor(STDERR_FILENO)) {}

RunConsole::~RunConsole() { HideProgress(); }

size_t RunConsole::columns() const {
  const size_t columns = SizeOf(STDERR_FILENO).columns;
  return columns > 1 ? columns - 1 : 1;  // the last column would wrap on some terminals
}

void RunConsole::Print(const std::string& text) {
  if (quiet_ || text.empty()) return;
  const std::unique_lock lock(mutex_, kPatience);
  WriteText(STDERR_FILENO, text);
}

// A line feed first: it makes room when the cursor is on the bottom row, and the cursor then goes
// back up, so it never stands on the reserved row.
void RunConsole::Reserve(size_t rows) {
  WriteText(STDERR_FILENO, std::string("\n") + kSave + "\x1b[1;" + std::to_string(rows - 1) + "r" +
                               kRestore + "\x1b[1A");
  reserved_rows_ = rows;
}

void RunConsole::Release() {
  WriteText(STDERR_FILENO,
            std::string(kSave) + "\x1b[r" + MoveTo(reserved_rows_) + "\x1b[2K" + kRestore);
  reserved_rows_ = 0;
}

void RunConsole::ShowProgress(const std::string& line) {
  if (!live_) return;
  const std::unique_lock lock(mutex_, kPatience);
  if (!lock.owns_lock() || !InForeground()) return;
  const size_t rows = SizeOf(STDERR_FILENO).rows;
  if (rows < kFewestRows) return;
  if (reserved_rows_ == rows && line == line_) return;
  if (reserved_rows_ != 0 && reserved_rows_ != rows) Release();
  if (reserved_rows_ == 0) Reserve(rows);
  line_ = line;
  const bool color = text_options_.color;
  WriteText(STDERR_FILENO, std::string(kSave) + MoveTo(rows) + "\x1b[2K" +
                               (color ? "\x1b[2m" : "") + line + (color ? "\x1b[0m" : "") +
                               kRestore);
}

void RunConsole::HideProgress() {
  const std::unique_lock lock(mutex_, kPatience);
  if (reserved_rows_ != 0) Release();
  line_.clear();
}

void RunConsole::Resized() {
  const std::unique_lock lock(mutex_, kPatience);
  if (lock.owns_lock() && reserved_rows_ != 0) {
    const std::string line = line_;
    Release();
    line_.clear();
  }
}

}  // namespace flare::cli
