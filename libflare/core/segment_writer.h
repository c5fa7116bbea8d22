// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "libflare/core/segment_layout.h"

// Makes the file of a segment and maps it.
//
// The file is allocated in full, so that a full tmpfs is found out here and not by a SIGBUS in the
// middle of training; when space is short the rings, then the thread slots, are halved. It appears
// under its final name only once its header is complete. Its owner holds a write lock on byte 0,
// which the kernel drops when the process dies. The file stays after that: it is the black box, and
// the daemon removes it.
// Allocates nothing on the heap; may set errno.
namespace flare {

enum class SegmentError : uint32_t {
  kNone = 0,
  kDirectory = 1,  // missing and not to be made, not ours, or writable by others
  kCreate = 2,
  kSpace = 3,  // not even the smallest segment fits
  kMap = 4,
  kPublish = 5,
};

struct Segment {
  char* base = nullptr;  // SegmentHeader first
  uint64_t bytes = 0;
  uint32_t thread_count = 0;
  uint32_t ring_events = 0;
  int fd = -1;
  uint64_t inode = 0;
  bool locked = false;
  char temporary_path[384] = {};
  char path[384] = {};

  SegmentHeader* header() const { return reinterpret_cast<SegmentHeader*>(base); }
};

inline constexpr uint32_t kMinRingEvents = 64;
inline constexpr uint32_t kMinThreadSlots = 8;

// Makes `directory` (mode 0700) when it is missing; it must be a real directory of this user that
// nobody else can write to.
SegmentError PrepareDirectory(const char* directory);

// Creates `directory`/`name` under a temporary name, allocated, mapped, zeroed but for the
// geometry.
SegmentError CreateSegment(const char* directory, const char* name, uint32_t thread_count,
                           uint32_t ring_events, Segment* segment);

// Marks the header ready and gives the file its name.
SegmentError PublishSegment(Segment* segment);

// Unmaps, closes and removes.
void DiscardSegment(Segment* segment);

}  // namespace flare
