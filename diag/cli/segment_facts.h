// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "libflare/core/status.h"

// What the header of a segment tells `flare doctor`. Copied once, checked, never mapped.
namespace flare::cli {

struct SegmentFacts {
  std::string path;
  Status problem;  // why it cannot be read: cut short, foreign, another layout version
  std::string job;
  std::string library_version;
  uint32_t layout_version = 0;
  uint32_t rank = 0;
  uint32_t world_size = 0;
  pid_t pid = 0;
  bool enabled = true;
  bool owner_lives = false;        // its owner still holds the lock
  std::vector<std::string> parts;  // "gloo active"
};

SegmentFacts ReadSegmentFacts(const std::string& path);

// All *.seg files in a folder and in its run-* folders.
std::vector<SegmentFacts> FindSegments(const std::string& folder);

}  // namespace flare::cli
