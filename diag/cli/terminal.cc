// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace flare::cli {

bool IsCapableTerminal(int fd) {
  const char* term = std::getenv("TERM");
  return isatty(fd) == 1 && term != nullptr && *term != 0 && std::strcmp(term, "dumb") != 0;
}

TerminalSize SizeOf(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {size.ws_col, size.ws_row};
}

diag::TextOptions TextOptionsFor(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  diag::TextOptions options;
  options.color = IsCapableTerminal(fd) && (no_color == nullptr || *no_color == 0);
  options.columns = isatty(fd) == 1 ? SizeOf(fd).columns : 100;
  return options;
}

bool WriteText(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (n < 0 && errno == EAGAIN) {  // somebody made the shared terminal non-blocking
      pollfd wait{fd, POLLOUT, 0};
      if (poll(&wait, 1, 1000) <= 0) return false;
    } else if (n < 0 && errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace flare::cli
