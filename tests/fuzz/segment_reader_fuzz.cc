// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary bytes as a segment file to the reader, the rings and the fold: everything that
// the daemon does with memory of another process. With clang and FLARE_FUZZ=ON a libFuzzer target;
// otherwise a program that replays the files given as arguments.
//
// A real segment is hundreds of kilobytes, mostly zero. The input is therefore a sparse picture of
// one: a well-formed segment of the smallest kind, over which the input writes patches:
// offset (4 bytes, modulo the size), length (1 byte), that many bytes; and so on.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "daemon/fold/step_folder.h"
#include "daemon/owner_probe.h"
#include "daemon/ring_reader.h"
#include "daemon/segment_reader.h"
#include "daemon/tracked_rank.h"

namespace flare::daemon {
namespace {

constexpr uint32_t kThreads = 2;
constexpr uint32_t kRing = 16;

std::vector<unsigned char> Template() {
  const SegmentGeometry g = ComputeGeometry(kThreads, kRing);
  std::vector<unsigned char> bytes(g.total);
  const auto put = [&](size_t offset, auto value) {
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
  };
#define PUT(field, type, value) put(offsetof(SegmentHeader, field), static_cast<type>(value))
  PUT(magic, uint64_t, kSegmentMagic);
  PUT(version, uint32_t, kSegmentVersion);
  PUT(header_bytes, uint32_t, sizeof(SegmentHeader));
  PUT(total_bytes, uint64_t, g.total);
  PUT(names_offset, uint64_t, g.names);
  PUT(comms_offset, uint64_t, g.comms);
  PUT(threads_offset, uint64_t, g.threads);
  PUT(rings_offset, uint64_t, g.rings);
  PUT(thread_count, uint32_t, kThreads);
  PUT(ring_events, uint32_t, kRing);
  PUT(ready, uint32_t, 1);
  PUT(source_id, uint64_t, 7);
  PUT(pid, int32_t, 0x7ffffff0);  // no process has it
  PUT(world_size, uint32_t, 4);
  PUT(job, char, 'j');
  PUT(enabled, uint32_t, 1);
#undef PUT
  for (uint32_t t = 0; t < kThreads; ++t) {
    put(g.threads + t * sizeof(ThreadSlot) + offsetof(ThreadSlot, tid), uint32_t{9});
  }
  return bytes;
}

void Patch(const uint8_t* data, size_t size, std::vector<unsigned char>* bytes) {
  size_t i = 0;
  while (i + 5 <= size) {
    uint32_t offset = 0;
    std::memcpy(&offset, data + i, 4);
    const size_t length = std::min<size_t>(data[i + 4], size - i - 5);
    i += 5;
    const size_t at = offset % bytes->size();
    std::memcpy(bytes->data() + at, data + i, std::min(length, bytes->size() - at));
    i += length;
  }
}

void ReadEverything(int fd) {
  auto segment = SegmentReader::FromFd(fd, getuid());
  if (!segment.ok() || segment.value() == nullptr) return;
  const OwnerProbe probe;
  TrackedRank rank("fuzz.seg", std::move(segment).value(), &probe, "node");
  std::string wire;
  rank.Hello().SerializeToString(&wire);
  std::vector<v1::RankStep> steps;
  for (int poll = 0; poll < 4; ++poll) rank.Poll(&steps);
  for (const v1::RankStep& step : steps) step.SerializeToString(&wire);
  // At a time when it is long without progress, and so looked at in full.
  rank.BuildState(MonotonicNs() + 100'000'000'000).SerializeToString(&wire);
  rank.StateDue(MonotonicNs());
  rank.SetEnabled(false);
}

}  // namespace
}  // namespace flare::daemon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flare::daemon;
  static const std::vector<unsigned char> original = Template();
  std::vector<unsigned char> bytes = original;
  // An odd first byte: the file is cut short, by the second byte.
  size_t keep = bytes.size();
  if (size >= 2 && data[0] % 2 == 1) keep = keep * data[1] / 256;
  if (size > 2) Patch(data + 2, size - 2, &bytes);
  const int fd = memfd_create("segment", MFD_CLOEXEC);
  if (fd < 0) return 0;
  if (write(fd, bytes.data(), keep) != static_cast<ssize_t>(keep)) {
    close(fd);
    return 0;
  }
  ReadEverything(fd);
  return 0;
}

#ifndef FLARE_LIBFUZZER
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot open %s\n", argv[i]);
      return 1;
    }
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  std::printf("replayed %d inputs\n", argc - 1);
  return argc > 1 ? 0 : 1;
}
#endif
