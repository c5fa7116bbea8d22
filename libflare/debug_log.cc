// SPDX-License-Identifier: Apache-2.0
#include "libflare/debug_log.h"

#include <fcntl.h>
#include <unistd.h>

#include "libflare/core/bounded_text.h"
#include "libflare/process_facts.h"
#include "libflare/recorder_state.h"

namespace flare {

void DebugLog(const char* text, const char* detail) {
  if (g_state.config.log_path[0] == '\0') return;
  ErrnoKeeper keep;
  const int fd = open(g_state.config.log_path,
                      O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
  if (fd < 0) return;
  char line[512];
  BoundedText writer(line);
  writer.Add("flare[").AddNumber(static_cast<uint32_t>(CurrentPid())).Add("]: ");
  writer.Add(text).Add(detail).AddChar('\n');
  [[maybe_unused]] const ssize_t written = write(fd, line, writer.length());
  close(fd);
}

}  // namespace flare
