// SPDX-License-Identifier: Apache-2.0
// The loop and the writer behind it, with threads but without gRPC: ThreadSanitizer sees all of it.
#include "diag/engine/engine_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <thread>

#include "libflare/core/clock.h"
#include "tests/diag/store/temp_dir.h"

namespace flare::diag {
namespace {

class CountingStream : public DaemonStream {
 public:
  void Release(size_t bytes) override { released += bytes; }
  void Acknowledge(uint64_t sequence) override {
    const std::lock_guard lock(mutex_);
    acknowledged_ = std::max(acknowledged_, sequence);
    news_.notify_all();
  }
  bool SwitchJob(const std::string&, bool) override { return true; }
  void WaitForAck(uint64_t sequence) {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [&] { return acknowledged_ >= sequence; });
  }
  std::atomic<size_t> released{0};

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  uint64_t acknowledged_ = 0;
};

class StepWatcher : public ReportWatcher {
 public:
  explicit StepWatcher(uint64_t wanted) : wanted_(wanted) {}
  bool Take(std::shared_ptr<const v1::Report> report) override {
    const std::lock_guard lock(mutex_);
    ++reports_;
    steps_ = report->job().steps();
    news_.notify_all();
    return steps_ < wanted_;
  }
  void WaitForWanted() {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [&] { return steps_ >= wanted_; });
  }
  uint64_t reports() {
    const std::lock_guard lock(mutex_);
    return reports_;
  }

 private:
  const uint64_t wanted_;
  std::mutex mutex_;
  std::condition_variable news_;
  uint64_t reports_ = 0;
  uint64_t steps_ = 0;
};

class EngineLoopTest : public testing::Test {
 protected:
  EngineLoopTest() {
    const std::string path = dir_ / "flare.db";
    auto commit = std::make_unique<GroupCommit>(std::move(*Store::Open(path, OpenMode::kReadWrite)),
                                                5, Retention());
    loop_ =
        std::make_unique<EngineLoop>("owner", std::move(*Store::Open(path, OpenMode::kReadOnly)),
                                     std::move(commit), 2, [](const std::string&) { return true; });
    loop_->Start();
  }

  // What a stream does for one batch: a step of one rank of the job.
  void SendStep(const std::shared_ptr<CountingStream>& stream, uint64_t source, uint64_t step) {
    v1::Batch batch;
    batch.set_sequence(step + 1);
    v1::RankHello* hello = batch.add_hellos();
    hello->set_source(source);
    hello->set_job("job");
    hello->set_rank(static_cast<uint32_t>(source - 1));
    hello->set_world_size(4);
    batch.add_steps()->set_source(source);
    batch.mutable_steps(0)->set_step(step);
    auto checked = std::make_shared<CheckedBatch>(CheckBatch(std::move(batch), RealtimeNs()));
    loop_->Post([stream, source, step, checked](EngineLoop::Context& engine) {
      const auto daemon = engine.jobs.FindOrAddDaemon("d" + std::to_string(source));
      daemon->stream = stream;
      StoreWrites writes;
      engine.jobs.TakeBatch(daemon, std::move(*checked), engine.now_unix_ns, &writes);
      engine.commit.Add(std::move(writes), [stream, step] {
        stream->Release(1);
        stream->Acknowledge(step + 1);
      });
    });
  }

  TempDir dir_;
  std::unique_ptr<EngineLoop> loop_;
};

TEST_F(EngineLoopTest, StreamsWatchersAndDetectorsWorkSideBySide) {
  constexpr uint64_t kSteps = 100;
  std::vector<std::shared_ptr<CountingStream>> streams(4);
  std::vector<std::thread> threads;
  for (uint64_t s = 0; s < streams.size(); ++s) {
    streams[s] = std::make_shared<CountingStream>();
    threads.emplace_back([this, s, stream = streams[s]] {
      for (uint64_t step = 0; step < kSteps; ++step) SendStep(stream, s + 1, step);
      stream->WaitForAck(kSteps);
    });
  }
  auto watcher = std::make_shared<StepWatcher>(kSteps);
  std::thread watching([&] {
    streams[0]->WaitForAck(1);
    loop_->Post([this, watcher](EngineLoop::Context& engine) {
      loop_->Watch(engine.jobs.Find("job")->key(), 1, watcher);
    });
    watcher->WaitForWanted();
  });
  for (std::thread& t : threads) t.join();
  watching.join();
  for (const auto& stream : streams) EXPECT_EQ(stream->released, kSteps);
  EXPECT_GE(watcher->reports(), 1u);
  EXPECT_EQ(loop_->commit_counters().steps_stored, 4 * kSteps);
}

TEST_F(EngineLoopTest, StopRunsWhatWasPostedAndStoresIt) {
  const auto stream = std::make_shared<CountingStream>();
  for (uint64_t step = 0; step < 50; ++step) SendStep(stream, 1, step);
  loop_->Stop();
  EXPECT_EQ(stream->released, 50u);
  EXPECT_EQ(loop_->table_counters().steps, 50u);
  bool ran = false;
  loop_->Post([&](EngineLoop::Context&) { ran = true; });
  loop_->Stop();
  EXPECT_FALSE(ran);
}

TEST_F(EngineLoopTest, WatcherThatHasEnoughIsLetGo) {
  const auto stream = std::make_shared<CountingStream>();
  SendStep(stream, 1, 0);
  auto watcher = std::make_shared<StepWatcher>(0);  // content with anything
  std::weak_ptr<StepWatcher> observed = watcher;
  loop_->Post([this, watcher = std::exchange(watcher, nullptr)](EngineLoop::Context& engine) {
    loop_->Watch(engine.jobs.Find("job")->key(), 1, watcher);
  });
  while (!observed.expired()) std::this_thread::yield();
}

}  // namespace
}  // namespace flare::diag
