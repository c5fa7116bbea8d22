// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>

#include "diag/report/report_text.h"

// What `flare run` itself writes: lines to stderr, and on a terminal one live line.
//
// The live line has the bottom row for itself: the rest of the screen scrolls above it (the scroll
// region of the terminal), so output of the command, prompts and its own progress bars stay as they
// are. Nothing goes to stdout. Any thread; gives up rather than wait long for another thread.
namespace flare::cli {

class RunConsole {
 public:
  RunConsole(bool quiet, bool progress);
  ~RunConsole();
  RunConsole(const RunConsole&) = delete;
  RunConsole& operator=(const RunConsole&) = delete;

  const diag::TextOptions& text_options() const { return text_options_; }
  size_t columns() const;  // for the live line
  bool live() const { return live_; }

  void Print(const std::string& text);
  void ShowProgress(const std::string& line);
  // Gives the bottom row back: before the process stops, and for good at its end.
  void HideProgress();
  void Resized();

 private:
  void Reserve(size_t rows);
  void Release();

  const bool quiet_;
  const bool live_;
  const diag::TextOptions text_options_;
  std::timed_mutex mutex_;
  size_t reserved_rows_ = 0;  // height of the screen when the row was taken; 0 = not taken
  std::string line_;
};

}  // namespace flare::cli
