// SPDX-License-Identifier: Apache-2.0
// Kills a real flared again and again, with SIGKILL, while a job writes its steps: none may be
// missing in the end, none be there in parts, none twice.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include "tests/daemon/segment_fixture.h"
#include "tests/daemon/uplink/fake_engine.h"

namespace flare::daemon {
namespace {

constexpr int kKills = 30;
constexpr uint32_t kRingEvents = 16384;
constexpr std::chrono::milliseconds kStepTime{2};

// flared as a process of its own.
class FlaredProcess {
 public:
  explicit FlaredProcess(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), FLARED_PROGRAM);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    if (posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ) != 0) abort();
  }
  ~FlaredProcess() { End(SIGKILL); }
  // Status as of waitpid().
  int End(int signal) {
    int status = 0;
    if (pid_ <= 0) return status;
    kill(pid_, signal);
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
};

// A training process of two threads: a collective on one, data loading and the boundary on the
// other. Pauses while half of what it may have unread is unread: this test is about kills.
class Job {
 public:
  explicit Job(const std::string& directory)
      : fixture_(directory, {.ring_events = kRingEvents}), thread_([this] { Run(); }) {}
  ~Job() { Stop(); }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  uint64_t steps() const { return steps_; }
  uint64_t tail() { return fixture_.thread(0)->tail.load(); }
  bool dropped() { return fixture_.thread(0)->dropped.load() + fixture_.thread(1)->dropped.load(); }

 private:
  void Run() {
    auto next = std::chrono::steady_clock::now();
    while (!stop_) {
      next += kStepTime;
      std::this_thread::sleep_until(next);
      if (fixture_.thread(0)->head.load() - tail() > kRingEvents / 16) continue;
      WriteStep(steps_);
      ++steps_;
    }
  }
  void WriteStep(uint64_t step) {
    Event event{};
    event.kind = EventKind::kCollective;
    event.comm = 5;
    event.sequence = step;
    event.start_ticks = MonotonicNs();
    event.end_ticks = event.start_ticks + 1;
    fixture_.Write(1, event);
    event.kind = EventKind::kDataLoad;
    fixture_.Write(0, event);
    fixture_.WriteStep(0, step, MonotonicNs() + 2);
  }

  SegmentFixture fixture_;
  std::atomic<uint64_t> steps_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class DaemonKillTest : public ::testing::Test {
 protected:
  DaemonKillTest() { std::filesystem::create_directories(segments_); }
  std::vector<std::string> Arguments() const {
    return {"--segment-dir", segments_, "--spool-dir", spool_,        "--engine",
            address_,        "--node",  "node-a",      "--log-level", "off"};
  }
  uint64_t SpoolBytes() const {
    uint64_t bytes = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(spool_, error)) {
      if (entry.path().extension() == ".spool") bytes += entry.file_size(error);
    }
    return bytes;
  }
  static void Await(const std::function<bool()>& condition, const char* what) {
    const uint64_t give_up = MonotonicNs() + 60'000'000'000;
    while (!condition()) {
      ASSERT_LT(MonotonicNs(), give_up) << what;
      std::this_thread::yield();
    }
  }
  // Waits for one of the moments at which a kill could do harm.
  void AwaitMoment(Job* job, std::mt19937* random) {
    const uint64_t some = (*random)() % 60;
    const uint64_t steps = job->steps(), tail = job->tail(), bytes = SpoolBytes();
    switch ((*random)() % 4) {
      case 0:  // read some, perhaps not even attached
        Await([&] { return job->steps() >= steps + some; }, "steps are made");
        break;
      case 1:  // spooled, perhaps not synced
        Await([&] { return SpoolBytes() != bytes; }, "the spool changes");
        break;
      case 2:  // released
        Await([&] { return job->tail() > tail; }, "events are released");
        break;
      case 3: {  // on the way to the engine
        size_t known = 0;
        ASSERT_TRUE(engine_.WaitFor([&] { return (known = engine_.StepCount()) > 0; }));
        ASSERT_TRUE(engine_.WaitFor([&] { return engine_.StepCount() >= known + some; }));
        break;
      }
    }
  }

  TemporaryDirectory directory_;
  std::string segments_ = directory_.path() + "/segments";
  std::string spool_ = directory_.path() + "/spool";
  std::string address_ = "unix:" + directory_.path() + "/engine.sock";
  FakeEngine engine_{address_};
};

TEST_F(DaemonKillTest, EveryStepArrivesOnceAndWholeHoweverOftenTheDaemonIsKilled) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Job job(segments_);
  for (int i = 0; i < kKills; ++i) {
    FlaredProcess flared(Arguments());
    ASSERT_NO_FATAL_FAILURE(AwaitMoment(&job, &random));
    ASSERT_TRUE(WIFSIGNALED(flared.End(SIGKILL)));
  }
  job.Stop();
  const uint64_t made = job.steps();
  FlaredProcess flared(Arguments());
  ASSERT_TRUE(engine_.WaitFor([&] { return engine_.StepCount() >= made; }))
      << engine_.StepCount() << " of " << made;
  EXPECT_EQ(flared.End(SIGTERM), 0);
  ASSERT_FALSE(job.dropped());
  const auto steps = engine_.Steps();
  EXPECT_EQ(steps.size(), made);
  uint64_t expected = 0;
  for (const auto& [key, step] : steps) {
    ASSERT_EQ(key.second, expected++);
    ASSERT_EQ(step.communicators_size(), 1) << key.second;
    ASSERT_EQ(step.communicators(0).first_sequence(), key.second);
    ASSERT_EQ(step.communicators(0).count(), 1u) << key.second;
    ASSERT_EQ(step.phases(0).count(), 1u) << key.second;
    ASSERT_GT(step.duration_ns(), 0u) << key.second;
    ASSERT_EQ(step.drops_size(), 0) << key.second << " " << step.drops(0).reason();
  }
  std::printf("%llu steps, %d kills\n", static_cast<unsigned long long>(made), kKills);
}

}  // namespace
}  // namespace flare::daemon
