// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "libflare/core/status.h"

// Small files, read and replaced whole.
namespace flare::cli {

// Replaces `path` by `content`: a reader sees the old text or the new one, never a part, also after
// a power failure. The new file has the permissions of the old one, else `mode` less the umask.
Status WriteFileAtomically(const std::string& path, const std::string& content, unsigned mode);

// At most `max_bytes` of a regular file, of /proc or of /sys. Never blocks on a FIFO.
Result<std::string> ReadSmallFile(const std::string& path, size_t max_bytes = 1 << 20);

}  // namespace flare::cli
