// SPDX-License-Identifier: Apache-2.0
// segment_peek --enabled-offset: where that field is in the file.
// segment_peek FILE [enable|disable]: shows a segment as JSON, or sets its `enabled` field as the
// daemon would. For tests; it reads only the fields that these need.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "libflare/core/segment_layout.h"

namespace {

using flare::SegmentHeader;
using flare::ThreadSlot;

void Show(char* base, uint64_t bytes) {
  const auto* header = reinterpret_cast<const SegmentHeader*>(base);
  uint64_t heads = 0, dropped = 0;
  uint32_t threads = 0;
  const uint64_t end = header->threads_offset + uint64_t{header->thread_count} * sizeof(ThreadSlot);
  if (header->thread_count <= flare::kMaxThreadSlots && end <= bytes) {
    for (uint32_t i = 0; i < header->thread_count; ++i) {
      const auto* slot = reinterpret_cast<const ThreadSlot*>(base + header->threads_offset) + i;
      if (slot->tid.load() == 0) continue;
      ++threads;
      heads += slot->head.load();
      dropped += slot->dropped.load();
    }
  }
  uint64_t losses = 0;
  for (const auto& drop : header->drops) losses += drop.load();
  std::printf(
      "{\"pid\": %d, \"rank\": %u, \"ready\": %u, \"enabled\": %u, \"phase\": %u, "
      "\"exit_code\": %d, \"step\": %" PRIu64 ", \"threads\": %u, \"events\": %" PRIu64
      ", \"dropped\": %" PRIu64 ", \"losses\": %" PRIu64 "}\n",
      header->pid, header->rank, header->ready.load(), header->enabled.load(), header->phase.load(),
      header->exit_code.load(), header->step.load(), threads, heads, dropped, losses);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (std::strcmp(argv[1], "--enabled-offset") == 0) {
    return std::printf("%zu\n", offsetof(SegmentHeader, enabled)) > 0 ? 0 : 1;
  }
  const int fd = open(argv[1], O_RDWR | O_CLOEXEC);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0) return 1;
  const auto bytes = static_cast<uint64_t>(status.st_size);
  if (bytes < sizeof(SegmentHeader)) return 1;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return 1;
  auto* header = static_cast<SegmentHeader*>(base);
  if (header->magic != flare::kSegmentMagic || header->version != flare::kSegmentVersion) return 1;
  if (argc > 2) header->enabled.store(std::strcmp(argv[2], "enable") == 0);
  Show(static_cast<char*>(base), bytes);
  return 0;
}
