// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "libflare/core/clock.h"
#include "libflare/core/event_ring.h"
#include "libflare/core/segment_layout.h"

// For tests: a directory that goes away, and a writer that lays out a segment as libflare does.
namespace flare::daemon {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string path = (std::filesystem::temp_directory_path() / "flare-test-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) abort();
    path_ = path;
  }
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline uint64_t StartClockTicksOf(pid_t pid) {
  FILE* file = fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "r");
  char line[1024] = {};
  if (file == nullptr) return 0;
  const bool got = fgets(line, sizeof(line), file) != nullptr;
  fclose(file);
  char* word = got ? strrchr(line, ')') : nullptr;
  for (int field = 2; word != nullptr && field < 22; ++field) word = strchr(word + 1, ' ');
  return word == nullptr ? 0 : strtoull(word, nullptr, 10);
}

struct SegmentSettings {
  std::string job = "job";
  uint32_t rank = 0, world_size = 2;
  uint64_t source = 77;
  pid_t pid = getpid();
  uint64_t start_clock_ticks = StartClockTicksOf(getpid());
  uint32_t thread_count = 4;
  uint32_t ring_events = 64;
};

// Writes to one segment file from this process. Does not take the owner's lock: POSIX locks do not
// conflict within a process; tests of the lock use a child.
class SegmentFixture {
 public:
  SegmentFixture(const std::string& directory, const SegmentSettings& settings = {})
      : settings_(settings) {
    path_ = directory + "/" + settings.job + "." + std::to_string(settings.rank) + "." +
            std::to_string(settings.pid) + "." + std::to_string(settings.source) + ".seg";
    geometry_ = ComputeGeometry(settings.thread_count, settings.ring_events);
    fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd_ < 0 || posix_fallocate(fd_, 0, static_cast<off_t>(geometry_.total)) != 0) abort();
    void* memory = mmap(nullptr, geometry_.total, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (memory == MAP_FAILED) abort();
    base_ = static_cast<unsigned char*>(memory);
    FillHeader();
    for (uint32_t t = 0; t < settings.thread_count; ++t) {
      writers_.emplace_back(
          thread(t), reinterpret_cast<Event*>(base_ + geometry_.rings) + t * settings.ring_events,
          settings.ring_events);
    }
    header()->ready.store(1, std::memory_order_release);
  }
  ~SegmentFixture() {
    munmap(base_, geometry_.total);
    close(fd_);
  }
  SegmentFixture(const SegmentFixture&) = delete;
  SegmentFixture& operator=(const SegmentFixture&) = delete;

  SegmentHeader* header() { return reinterpret_cast<SegmentHeader*>(base_); }
  ThreadSlot* thread(uint32_t t) {
    return reinterpret_cast<ThreadSlot*>(base_ + geometry_.threads) + t;
  }
  CommSlot* comm(uint32_t c) { return reinterpret_cast<CommSlot*>(base_ + geometry_.comms) + c; }
  void SetName(uint32_t id, const char* text) {
    auto* slot = reinterpret_cast<NameSlot*>(base_ + geometry_.names) + id;
    strncpy(slot->text, text, sizeof(slot->text) - 1);
  }
  const std::string& path() const { return path_; }
  std::string file_name() const { return path_.substr(path_.rfind('/') + 1); }
  int fd() const { return fd_; }

  bool Write(uint32_t t, const Event& event) {
    thread(t)->tid.store(static_cast<uint32_t>(settings_.pid) + t);
    thread(t)->last_event_ticks.store(event.end_ticks);
    return writers_[t].Write(event);
  }
  void WriteStep(uint32_t t, uint64_t step, uint64_t ticks) {
    Event event{};
    event.kind = EventKind::kStep;
    event.sequence = step;
    event.start_ticks = event.end_ticks = ticks;
    Write(t, event);
    header()->step.store(step + 1);
    header()->step_ticks.store(ticks);
  }

 private:
  void FillHeader() {
    SegmentHeader* h = new (base_) SegmentHeader{};
    h->magic = kSegmentMagic;
    h->version = kSegmentVersion;
    h->header_bytes = sizeof(SegmentHeader);
    h->total_bytes = geometry_.total;
    h->names_offset = geometry_.names;
    h->comms_offset = geometry_.comms;
    h->threads_offset = geometry_.threads;
    h->rings_offset = geometry_.rings;
    h->thread_count = settings_.thread_count;
    h->ring_events = settings_.ring_events;
    h->tick_source = static_cast<uint32_t>(TickSource::kMonotonicNs);
    h->anchor_monotonic_ns = h->anchor_ticks = MonotonicNs();
    h->anchor_realtime_ns = RealtimeNs();
    h->source_id = settings_.source;
    h->pid = settings_.pid;
    h->main_tid = settings_.pid;
    h->process_start_clock_ticks = settings_.start_clock_ticks;
    h->rank = settings_.rank;
    h->world_size = settings_.world_size;
    strncpy(h->job, settings_.job.c_str(), sizeof(h->job) - 1);
    strncpy(h->job_name, settings_.job.c_str(), sizeof(h->job_name) - 1);
    strncpy(h->node, "node-a", sizeof(h->node) - 1);
    h->phase.store(static_cast<uint32_t>(ProcessPhase::kRunning));
    h->enabled.store(1);
  }

  const SegmentSettings settings_;
  std::string path_;
  SegmentGeometry geometry_{};
  int fd_ = -1;
  unsigned char* base_ = nullptr;
  std::vector<EventRingWriter> writers_;
};

}  // namespace flare::daemon
