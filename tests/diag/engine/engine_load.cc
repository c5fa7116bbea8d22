// SPDX-License-Identifier: Apache-2.0
// Load for an engine, and what it takes: engine_load [DAEMONS] [STEPS_PER_BATCH] [SECONDS]
// [PACE_MS].
//
// Each daemon streams batches of 700-byte steps. PACE_MS 0: as fast as the engine takes them, 32
// batches ahead of the acknowledgements. Otherwise: one batch every PACE_MS, which shows the
// latency of an acknowledgement. The engine runs in this process on a Unix socket, its state in
// $TMPDIR.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "diag/engine/engine.h"
#include "libflare/core/clock.h"
#include "tests/diag/engine/test_client.h"
#include "tests/diag/store/temp_dir.h"

namespace flare::diag {
namespace {

constexpr uint64_t kAhead = 32;

// About what a DDP step of a small transformer folds to.
v1::RankStep TypicalStep(uint64_t source, uint64_t step) {
  v1::RankStep out = Step(source, step);
  for (int kind = 5; kind < 8; ++kind) {
    v1::PhaseTime* phase = out.add_phases();
    phase->set_kind(static_cast<v1::CallKind>(kind));
    phase->set_count(1);
    phase->set_total_ns(12'345'678);
    phase->set_longest_ns(12'345'678);
  }
  v1::CommunicatorStep* c = out.add_communicators();
  c->set_communicator(0x1234567890abcdef);
  c->set_first_sequence(step * 64);
  c->set_count(64);
  for (int i = 0; i < 64; ++i) c->add_duration_us(static_cast<uint32_t>(900'000 + i));
  for (int i = 0; i < 12; ++i) {
    v1::OperationTotals* operation = c->add_operations();
    operation->set_operation(v1::OPERATION_ALL_REDUCE);
    operation->set_count(64);
    operation->set_bytes(1'234'567'890);
    operation->set_total_ns(987'654'321);
  }
  c->set_signature_hash(0xfedcba0987654321);
  return out;
}

struct Flags {
  uint64_t daemons = 8;
  uint64_t steps_per_batch = 100;
  uint64_t seconds = 10;
  uint64_t pace_ms = 0;
};

// Streams until `end_ns`; the latencies of the acknowledgements.
std::vector<uint64_t> Load(const std::string& address, uint64_t number, const Flags& flags,
                           uint64_t end_ns, std::atomic<uint64_t>* steps) {
  TestDaemon daemon(address, "load-" + std::to_string(number));
  const uint64_t source = 1 + number * flags.steps_per_batch;
  std::vector<uint64_t> latencies_ns;
  std::vector<uint64_t> sent_ns = {0};
  uint64_t waited_for = 0;
  const auto wait_for = [&](uint64_t sequence) {
    if (!daemon.WaitForAck(sequence)) std::abort();
    latencies_ns.push_back(MonotonicNs() - sent_ns[sequence]);
    waited_for = sequence;
  };
  for (uint64_t sequence = 1; MonotonicNs() < end_ns; ++sequence) {
    v1::Batch batch;
    batch.set_sequence(sequence);
    for (uint64_t r = 0; r < flags.steps_per_batch; ++r) {
      if (sequence == 1) {
        *batch.add_hellos() =
            Hello(source + r, "load-" + std::to_string(number), static_cast<uint32_t>(r),
                  static_cast<uint32_t>(flags.steps_per_batch));
      }
      *batch.add_steps() = TypicalStep(source + r, sequence);
    }
    sent_ns.push_back(MonotonicNs());
    if (!daemon.Send(batch)) std::abort();
    *steps += flags.steps_per_batch;
    if (flags.pace_ms != 0) {
      wait_for(sequence);
      std::this_thread::sleep_for(std::chrono::milliseconds(flags.pace_ms));
    } else if (sequence > waited_for + kAhead) {
      wait_for(sequence - kAhead);
    }
  }
  wait_for(sent_ns.size() - 1);
  return latencies_ns;
}

double Milliseconds(const std::vector<uint64_t>& sorted_ns, double quantile) {
  const auto index = static_cast<size_t>(quantile * static_cast<double>(sorted_ns.size() - 1));
  return static_cast<double>(sorted_ns[index]) / 1e6;
}

int Run(const Flags& flags) {
  const TempDir dir;
  EngineOptions options;
  options.state_dir = dir / "state";
  options.listen = "unix:" + (dir / "engine.sock");
  Result<std::unique_ptr<Engine>> engine = Engine::Start(options);
  if (!engine.ok()) {
    fprintf(stderr, "engine_load: %s\n", engine.status().message().c_str());
    return 1;
  }
  std::atomic<uint64_t> steps{0};
  const uint64_t start_ns = MonotonicNs();
  std::vector<std::vector<uint64_t>> latencies(flags.daemons);
  std::vector<std::thread> threads;
  for (uint64_t d = 0; d < flags.daemons; ++d) {
    threads.emplace_back([&, d] {
      latencies[d] =
          Load((*engine)->address(), d, flags, start_ns + flags.seconds * 1'000'000'000, &steps);
    });
  }
  for (std::thread& t : threads) t.join();
  const double took = static_cast<double>(MonotonicNs() - start_ns) / 1e9;
  std::vector<uint64_t> all;
  for (const auto& l : latencies) all.insert(all.end(), l.begin(), l.end());
  std::sort(all.begin(), all.end());
  const EngineCounters c = (*engine)->counters();
  printf("%llu steps of %zu bytes in %.1f s: %.0f steps/s acknowledged, stored %llu\n",
         static_cast<unsigned long long>(steps.load()), TypicalStep(1, 1).ByteSizeLong(), took,
         static_cast<double>(steps.load()) / took, static_cast<unsigned long long>(c.steps_stored));
  printf("acknowledgement: p50 %.1f ms, p99 %.1f ms, longest %.1f ms\n", Milliseconds(all, 0.5),
         Milliseconds(all, 0.99), Milliseconds(all, 1));
  printf("commits: %llu, mean %.1f ms, longest %.1f ms\n",
         static_cast<unsigned long long>(c.commits),
         static_cast<double>(c.commit_ns_total) / 1e6 /
             static_cast<double>(std::max<uint64_t>(1, c.commits)),
         static_cast<double>(c.commit_ns_longest) / 1e6);
  return c.steps_stored == steps ? 0 : 1;
}

}  // namespace
}  // namespace flare::diag

int main(int argc, char** argv) {
  flare::diag::Flags flags;
  uint64_t* const values[] = {&flags.daemons, &flags.steps_per_batch, &flags.seconds,
                              &flags.pace_ms};
  for (int i = 1; i < argc && i <= 4; ++i) *values[i - 1] = strtoull(argv[i], nullptr, 10);
  return flare::diag::Run(flags);
}
