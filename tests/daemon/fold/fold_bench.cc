// SPDX-License-Identifier: Apache-2.0
// How many events per second of CPU time one core drains and folds, beside a std::mutex and
// std::queue that carry as many events, without contention, and fold nothing. Prints both and their
// ratio.
//
//   build/tests/fold_bench [million events]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <queue>

#include "daemon/fold/step_folder.h"
#include "daemon/ring_reader.h"
#include "tests/daemon/segment_fixture.h"

namespace flare::daemon {
namespace {

constexpr uint32_t kThreads = 4;
constexpr uint32_t kRing = 4096;
constexpr uint32_t kEventsPerStep = 200;

// CPU time of this thread, system calls included: other programs on the machine do not count.
double CpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

Event MakeEvent(uint64_t i, uint64_t ticks) {
  Event event{};
  const bool collective = i % 4 != 3;
  event.kind = collective ? EventKind::kCollective : EventKind::kDataLoad;
  event.operation = Operation::kAllReduce;
  event.data_type = DataType::kFloat32;
  event.comm = 1 + i % 3;
  event.sequence = i / 4;
  event.bytes = 1 << 20;
  event.peer = kNoPeer;
  event.start_ticks = ticks - 500;
  event.end_ticks = ticks;
  return event;
}

// Fills all rings; the time that takes is not counted.
void Fill(SegmentFixture* fixture, uint64_t* made, uint64_t* step) {
  uint64_t ticks = MonotonicNs() - uint64_t{kRing} * kThreads * 10;
  for (uint32_t i = 0; i < (kRing - 64) * kThreads; ++i) {
    ticks += 10;
    if (i % kEventsPerStep == kEventsPerStep - 1) {
      fixture->WriteStep(0, (*step)++, ticks);
    } else {
      fixture->Write(i % kThreads, MakeEvent(*made, ticks));
      ++*made;
    }
  }
}

double FoldRate(uint64_t total) {
  TemporaryDirectory directory;
  SegmentFixture fixture(directory.path(), {.thread_count = kThreads, .ring_events = kRing});
  auto segment = SegmentReader::FromFd(open(fixture.path().c_str(), O_RDWR), getuid());
  if (!segment.ok()) std::exit(1);
  RingReader rings(segment.value().get());
  const ClockReading first = ReadClocks(TickSource::kMonotonicNs);
  TickClock clock(TickSource::kMonotonicNs, {1, 1, 1}, first);
  StepFolder folder(1);
  std::vector<Event> events;
  std::vector<v1::RankStep> steps;
  uint64_t made = 0, step = 0, bytes = 0;
  double seconds = 0;
  while (rings.events_read() < total) {
    Fill(&fixture, &made, &step);
    const double start = CpuSeconds();
    const ClockReading now = ReadClocks(TickSource::kMonotonicNs);
    clock.Update(now);
    events.clear();
    rings.Drain(&events);
    steps.clear();
    folder.Fold(
        {now.ticks, 1, true, false}, events, &clock,
        [&](uint32_t id) -> const std::string& { return segment.value()->Name(id); }, &steps);
    seconds += CpuSeconds() - start;
    for (const auto& s : steps) bytes += s.ByteSizeLong();
  }
  std::printf("  %.1f M events in %llu steps, %.0f bytes per step of %u events\n",
              static_cast<double>(rings.events_read()) / 1e6,
              static_cast<unsigned long long>(folder.steps()),
              static_cast<double>(bytes) / static_cast<double>(folder.steps()), kEventsPerStep);
  return static_cast<double>(rings.events_read()) / seconds;
}

double QueueRate(uint64_t total) {
  std::mutex mutex;
  std::queue<Event> queue;
  const Event event = MakeEvent(1, MonotonicNs());
  uint64_t done = 0, sum = 0;
  double seconds = 0;
  while (done < total) {
    const double start = CpuSeconds();
    for (uint64_t i = 0; i < kRing * kThreads; ++i) {
      const std::lock_guard lock(mutex);
      queue.push(event);
    }
    for (bool more = true; more;) {
      const std::lock_guard lock(mutex);
      if ((more = !queue.empty())) {
        sum += queue.front().bytes;
        queue.pop();
        ++done;
      }
    }
    seconds += CpuSeconds() - start;
  }
  return sum == 0 ? 0 : static_cast<double>(done) / seconds;
}

}  // namespace
}  // namespace flare::daemon

int main(int argc, char** argv) {
  const uint64_t total = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20) * 1'000'000;
  double fold = 0, queue = 0;
  for (int round = 0; round < 3; ++round) {
    fold = std::max(fold, flare::daemon::FoldRate(total));
    queue = std::max(queue, flare::daemon::QueueRate(total));
  }
  std::printf("drained and folded: %.1f M events/s per core\n", fold / 1e6);
  std::printf("mutex and queue:    %.1f M events/s, only carried\n", queue / 1e6);
  std::printf("ratio:              %.2f\n", fold / queue);
  return 0;
}
