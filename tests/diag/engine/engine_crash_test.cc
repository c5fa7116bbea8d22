// SPDX-License-Identifier: Apache-2.0
// flare-engine killed in the middle of streams: nothing acknowledged is missing or doubled.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <random>
#include <set>
#include <thread>

#include "diag/store/store.h"
#include "tests/diag/engine/test_client.h"
#include "tests/diag/store/temp_dir.h"

extern char** environ;

namespace flare::diag {
namespace {

class EngineProcess {
 public:
  EngineProcess(const std::string& listen, const std::string& state_dir) {
    std::string program = FLARE_ENGINE;
    std::string arguments[] = {"--listen=" + listen, "--state-dir=" + state_dir, "--log-level=off"};
    char* argv[] = {program.data(), arguments[0].data(), arguments[1].data(), arguments[2].data(),
                    nullptr};
    EXPECT_EQ(posix_spawn(&pid_, program.c_str(), nullptr, nullptr, argv, environ), 0);
  }
  ~EngineProcess() { Kill(); }
  void Kill() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

using StepSet = std::set<std::pair<uint64_t, uint64_t>>;  // source, step

class EngineCrashTest : public testing::Test {
 protected:
  static constexpr uint64_t kSource = 70;
  static constexpr uint64_t kStepsPerBatch = 5;

  v1::Batch MakeBatch(uint64_t sequence) {
    v1::Batch batch;
    batch.set_sequence(sequence);
    *batch.add_hellos() = Hello(kSource, "job", 0, 1);
    for (uint64_t s = 0; s < kStepsPerBatch; ++s) {
      *batch.add_steps() = Step(kSource, sequence * kStepsPerBatch + s);
    }
    return batch;
  }

  StepSet StepsUpTo(uint64_t sequence) {
    StepSet out;
    for (uint64_t s = kStepsPerBatch; s < (sequence + 1) * kStepsPerBatch; ++s) {
      out.emplace(kSource, s);
    }
    return out;
  }

  StepSet Stored() {
    StepSet out;
    const Result<std::unique_ptr<Store>> store =
        Store::Open(dir_ / "state/flare.db", OpenMode::kReadOnly);
    EXPECT_TRUE(store.ok()) << store.status().message();
    const Result<std::optional<JobKey>> key = (*store)->FindJob("job");
    EXPECT_TRUE(key.ok() && key->has_value());
    const Result<JobMemory> memory = (*store)->LoadJob(**key, 100'000);
    EXPECT_TRUE(memory.ok()) << memory.status().message();
    for (const StoredStep& s : memory->steps) {
      EXPECT_TRUE(out.emplace(s.source, s.step).second) << "doubled: step " << s.step;
    }
    return out;
  }

  TempDir dir_;
};

TEST_F(EngineCrashTest, WhatWasAcknowledgedSurvivesAndNothingIsDoubled) {
  std::mt19937 random(3);
  const std::string address = "unix:" + (dir_ / "engine.sock");
  uint64_t sent = 0;          // highest number ever sent
  uint64_t acknowledged = 0;  // highest ever acknowledged
  for (int life = 0; life < 5; ++life) {
    EngineProcess engine(address, dir_ / "state");
    TestDaemon daemon(address, "d");
    const uint64_t enough = acknowledged + 5 + random() % 20;
    std::thread sending([&, next = acknowledged + 1]() mutable {
      while (next <= enough + 200 && daemon.Send(MakeBatch(next))) sent = std::max(sent, next++);
    });
    ASSERT_TRUE(daemon.WaitForAck(enough));
    engine.Kill();
    sending.join();
    (void)daemon.WaitForEnd();
    acknowledged = daemon.acknowledged();

    const StepSet stored = Stored();
    for (const auto& step : StepsUpTo(acknowledged)) {
      ASSERT_TRUE(stored.contains(step)) << "life " << life << ": lost step " << step.second;
    }
    const StepSet possible = StepsUpTo(sent + 1);  // the last write may have failed half way
    for (const auto& step : stored) ASSERT_TRUE(possible.contains(step));
  }
  EngineProcess engine(address, dir_ / "state");
  TestDaemon daemon(address, "d");
  for (uint64_t s = acknowledged + 1; s <= sent + 1; ++s) ASSERT_TRUE(daemon.Send(MakeBatch(s)));
  ASSERT_TRUE(daemon.WaitForAck(sent + 1));
  EXPECT_EQ(Stored(), StepsUpTo(sent + 1));
}

}  // namespace
}  // namespace flare::diag
