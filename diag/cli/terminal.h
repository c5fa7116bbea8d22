// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "diag/report/report_text.h"

// What stands behind a descriptor, and how text gets there.
namespace flare::cli {

// A terminal that understands escape sequences (TERM is set and not "dumb").
bool IsCapableTerminal(int fd);

struct TerminalSize {
  size_t columns = 80;
  size_t rows = 0;  // 0 unknown
};
TerminalSize SizeOf(int fd);

// Colours on a capable terminal unless NO_COLOR is set and not empty; its width, else 100.
diag::TextOptions TextOptionsFor(int fd);

// Writes everything; false when the reader has gone or the disk is full. SIGPIPE must be blocked or
// fatal by intent.
bool WriteText(int fd, const std::string& text);

}  // namespace flare::cli
