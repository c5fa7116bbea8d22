// SPDX-License-Identifier: Apache-2.0
// What one recorded call costs the thread that makes it (BeginCall and EndCall, one event), beside
// an empty call and beside a std::mutex with a std::queue, measured in turn in one run.
//
//   event_cost_bench [--json] [--quick]     nanoseconds: median and 99th percentile
//   event_cost_bench --count                calls of the allocator, locks and system calls while
//                                           100,000 events are recorded, and what a control makes
//   event_cost_bench --loop WHAT N          N times one thing and nothing else, for callgrind
#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "libflare/core/event_ring.h"
#include "libflare/recorder.h"
#include "libflare/recorder_state.h"
#include "tests/bench/cost_counters.h"

namespace flare {
namespace {

constexpr int kGroup = 32;  // calls timed together: one reading of the clock is as dear as a call

struct LockedQueue {
  std::mutex mutex;
  std::queue<Event> events;
};
LockedQueue g_queue;

void Empty(uint64_t) { __asm__ volatile("" ::: "memory"); }

void Record(uint64_t sequence) {
  Call call;
  call.kind = EventKind::kCollective;
  call.operation = Operation::kAllReduce;
  call.data_type = DataType::kFloat32;
  call.comm = 1;
  call.sequence = sequence;
  call.bytes = 4096;
  const CallToken token = BeginCall(call, __builtin_frame_address(0));
  EndCall(token, call);
}

// What a tracer does that puts finished calls into a queue for another thread.
void RecordInQueue(uint64_t sequence) {
  Event event = {};
  event.start_ticks = MonotonicNs();
  event.sequence = sequence;
  event.end_ticks = MonotonicNs();
  std::lock_guard<std::mutex> lock(g_queue.mutex);
  g_queue.events.push(event);
}

using Function = void (*)(uint64_t);

// Through a volatile pointer, so that every variant is a real call.
__attribute__((noinline)) void RunGroup(Function volatile* function, uint64_t first) {
  for (int i = 0; i < kGroup; ++i) (*function)(first + i);
}

void EmptyTheRing() {
  SegmentHeader* header = Header();
  if (header == nullptr) return;
  for (uint32_t i = 0; i < g_state.segment.thread_count; ++i) {
    ThreadSlot* slot = &g_state.threads[i];
    slot->tail.store(slot->head.load());
  }
}

void EmptyTheQueue() {
  std::lock_guard<std::mutex> lock(g_queue.mutex);
  g_queue.events = {};
}

struct Variant {
  const char* name;
  Function volatile function;
  bool enabled;
  std::vector<double> ns = {};

  double Percentile(double share) {
    std::sort(ns.begin(), ns.end());
    return ns[static_cast<size_t>(share * static_cast<double>(ns.size() - 1))];
  }
};

void Measure(std::vector<Variant>& variants, int rounds, int groups_per_round) {
  uint64_t sequence = 0;
  for (int round = 0; round < rounds; ++round) {
    for (Variant& variant : variants) {
      Header()->enabled.store(variant.enabled);
      EmptyTheRing();
      EmptyTheQueue();
      RunGroup(&variant.function, sequence);  // warms what the other variants threw out
      for (int group = 0; group < groups_per_round; ++group) {
        const uint64_t start_ns = MonotonicNs();
        RunGroup(&variant.function, sequence += kGroup);
        variant.ns.push_back(static_cast<double>(MonotonicNs() - start_ns) / kGroup);
      }
    }
  }
}

void Show(std::vector<Variant>& variants, bool json) {
  const double empty = variants[0].Percentile(0.5);
  const double ours = variants[1].Percentile(0.5) - empty;
  if (json) std::printf("{");
  for (Variant& variant : variants) {
    const double p50 = variant.Percentile(0.5), p99 = variant.Percentile(0.99);
    if (json) {
      std::printf("\"%s\": {\"p50_ns\": %.2f, \"p99_ns\": %.2f, \"added_p50_ns\": %.2f}, ",
                  variant.name, p50, p99, p50 - empty);
    } else {
      std::printf("%-22s p50 %7.2f ns   p99 %7.2f ns   added %7.2f ns\n", variant.name, p50, p99,
                  p50 - empty);
    }
  }
  const double queue = variants.back().Percentile(0.5) - empty;
  const char* source = g_gate->tick_source == static_cast<uint32_t>(TickSource::kTsc)
                           ? "time-stamp counter"
                           : "CLOCK_MONOTONIC";
  std::printf(json ? "\"queue_to_ours\": %.2f, \"clock\": \"%s\"}\n"
                   : "a mutex and a queue cost %.1f times what an event costs; clock: %s\n",
              queue / ours, source);
}

// Allocations, locks and system calls while events are recorded; then the same counters while a
// control makes one of each per turn, to show that they count.
void Count() {
  constexpr uint64_t kEvents = 100'000;
  const auto record = [] {
    for (uint64_t i = 0; i < kEvents; ++i) Record(i);
  };
  const auto control = [] {
    for (uint64_t i = 0; i < 100; ++i) {
      RecordInQueue(i);
      bench::AskTheKernel();
    }
  };
  const bench::Costs ours = bench::CountCosts([] { Record(0); }, record);
  const auto warm_up = [] {  // gives this thread a heap that need not grow under the counters
    for (uint64_t i = 0; i < 1000; ++i) RecordInQueue(i);
    EmptyTheQueue();
  };
  const bench::Costs theirs = bench::CountCosts(warm_up, control);
  const uint64_t dropped = g_state.threads[0].dropped.load() + g_state.threads[1].dropped.load();
  uint64_t heads = 0;
  for (uint32_t i = 0; i < g_state.segment.thread_count; ++i) heads += g_state.threads[i].head;
  std::printf("{\"events\": %" PRIu64 ", \"recorded_or_dropped\": %" PRIu64
              ", \"allocations\": %" PRIu64 ", \"locks\": %" PRIu64 ", \"system_calls\": %" PRIu64
              ", \"control\": {\"turns\": 100, \"allocations\": %" PRIu64 ", \"locks\": %" PRIu64
              ", \"system_calls\": %" PRIu64 "}}\n",
              kEvents, heads + dropped, ours.allocations, ours.locks, ours.system_calls,
              theirs.allocations, theirs.locks, theirs.system_calls);
}

bool Wake() {
  static const char* const kEnvironment[] = {"FLARE_FORCE=1", "FLARE_JOB=bench", nullptr};
  char directory[] = "/dev/shm/flare-bench-XXXXXX";
  if (mkdtemp(directory) == nullptr) return false;
  ReadConfig(kEnvironment, 0, 1, &g_state.config);
  std::snprintf(g_state.config.directory, sizeof(g_state.config.directory), "%s", directory);
  const bool awake = EnsureAwake(WakeReason::kCall);
  // The mapping is all we need.
  if (awake) std::remove(g_state.segment.path);
  std::remove(directory);
  return awake;
}

int Loop(const std::string& what, uint64_t turns) {
  static Function volatile function = what == "event"   ? Record
                                      : what == "queue" ? RecordInQueue
                                                        : Empty;
  if (what == "inactive") {
    function = Record;
    Header()->enabled.store(0);
  }
  for (uint64_t i = 0; i < turns; i += kGroup) {
    RunGroup(&function, i);
    if (i % 2048 == 0) EmptyTheRing();
  }
  return 0;
}

}  // namespace
}  // namespace flare

int main(int argc, char** argv) {
  bool json = false, quick = false;
  if (!flare::Wake()) {
    std::fprintf(stderr, "event_cost_bench: no segment could be made\n");
    return 1;
  }
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--count") return flare::Count(), 0;
    if (argument == "--loop" && i + 2 < argc)
      return flare::Loop(argv[i + 1], std::atoll(argv[i + 2]));
    json |= argument == "--json";
    quick |= argument == "--quick";
  }
  std::vector<flare::Variant> variants = {{"empty call", flare::Empty, true},
                                          {"event", flare::Record, true},
                                          {"event, switched off", flare::Record, false},
                                          {"mutex and queue", flare::RecordInQueue, true}};
  flare::Measure(variants, quick ? 50 : 2000, 64);
  flare::Show(variants, json);
  return 0;
}
