// SPDX-License-Identifier: Apache-2.0
#include "daemon/uplink/engine_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/daemon/segment_fixture.h"
#include "tests/daemon/uplink/fake_engine.h"

namespace flare::daemon {
namespace {

class EngineClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<EngineClient> Connect() {
    EngineClient::Options options;
    options.address = address_;
    options.node = "node-a";
    options.version = "1";
    options.batch_ms = 5;
    options.backoff_min_ms = 5;
    options.backoff_max_ms = 50;
    options.on_control = [this](const v1::Control& control) {
      last_switch_job_on_ = control.job_switch().enabled();
      ++controls_;
    };
    auto spool = Spool::Open(directory_.path() + "/spool");
    EXPECT_TRUE(spool.ok()) << spool.status().message();
    auto client = std::make_unique<EngineClient>(options, std::move(spool).value());
    client->Start();
    return client;
  }
  static std::vector<v1::RankStep> Steps(uint64_t first, int count) {
    std::vector<v1::RankStep> steps(static_cast<size_t>(count));
    for (auto& step : steps) {
      step.set_source(9);
      step.set_step(first++);
    }
    return steps;
  }
  static v1::RankHello Rank(uint64_t source) {
    v1::RankHello hello;
    hello.set_source(source);
    return hello;
  }
  static bool Eventually(const std::function<bool()>& condition) {
    const uint64_t give_up = MonotonicNs() + 10'000'000'000;
    while (!condition()) {
      if (MonotonicNs() > give_up) return false;
      std::this_thread::yield();
    }
    return true;
  }
  // Every step from 0 on exactly once.
  static void ExpectEachStepOnce(const FakeEngine& engine, uint64_t count) {
    std::map<uint64_t, int> seen;
    for (const auto& [sequence, batch] : engine.batches_) {
      for (const auto& step : batch.steps()) ++seen[step.step()];
    }
    ASSERT_EQ(seen.size(), count);
    EXPECT_EQ(seen.rbegin()->first, count - 1);
    for (const auto& [step, times] : seen) EXPECT_EQ(times, 1) << step;
  }

  TemporaryDirectory directory_;
  std::string address_ = "unix:" + directory_.path() + "/engine.sock";
  std::atomic<int> controls_{0};
  std::atomic<bool> last_switch_job_on_{true};
};

TEST_F(EngineClientTest, StepsArriveAndAreAcknowledged) {
  FakeEngine engine(address_);
  auto client = Connect();
  client->AddRank(Rank(9));
  client->AddSteps(Steps(0, 10));
  ASSERT_TRUE(engine.WaitFor([&] { return engine.StepCount() == 10; }));
  ASSERT_TRUE(Eventually([&] { return client->Idle(); }));
  EXPECT_EQ(client->counters().steps_acknowledged, 10u);
  EXPECT_TRUE(client->counters().connected);
  client->Stop(1000);
  ExpectEachStepOnce(engine, 10);
  EXPECT_EQ(engine.hellos_.at(0).node(), "node-a");
  EXPECT_EQ(engine.hellos_.at(0).protocol(), 1u);
  EXPECT_EQ(engine.hellos_.at(0).daemon_id().size(), 32u);
}

TEST_F(EngineClientTest, WhatWasMadeBeforeTheEngineCameArrivesLater) {
  auto client = Connect();
  client->AddRank(Rank(9));
  for (uint64_t i = 0; i < 5; ++i) client->AddSteps(Steps(i * 10, 10));
  ASSERT_TRUE(Eventually([&] { return client->counters().steps_spooled == 50; }));
  FakeEngine engine(address_);
  ASSERT_TRUE(engine.WaitFor([&] { return engine.StepCount() == 50; }));
  client->Stop(1000);
  ExpectEachStepOnce(engine, 50);
}

TEST_F(EngineClientTest, UnacknowledgedBatchesAreSentAgainAfterTheEngineRestarts) {
  FakeEngine engine(address_);
  engine.SetAcknowledge(false);
  auto client = Connect();
  client->AddSteps(Steps(0, 10));
  ASSERT_TRUE(engine.WaitFor([&] { return engine.StepCount() == 10; }));
  EXPECT_FALSE(client->Idle());
  engine.Shutdown();
  engine.SetAcknowledge(true);
  client->AddSteps(Steps(10, 10));
  engine.Listen();
  ASSERT_TRUE(engine.WaitFor([&] { return engine.StepCount() == 20; }));
  ASSERT_TRUE(Eventually([&] { return client->Idle(); }));
  client->Stop(1000);
  EXPECT_GE(engine.repeated_, 1u);
  EXPECT_FALSE(engine.repeated_differ_);
  ExpectEachStepOnce(engine, 20);
  EXPECT_EQ(client->counters().steps_acknowledged, 20u);
}

TEST_F(EngineClientTest, AcknowledgedBatchesAreNotSentAgain) {
  FakeEngine engine(address_);
  auto client = Connect();
  client->AddSteps(Steps(0, 10));
  ASSERT_TRUE(Eventually([&] { return client->counters().steps_acknowledged == 10; }));
  engine.Shutdown();
  engine.Listen();
  ASSERT_TRUE(Eventually([&] { return client->counters().connects == 2; }));
  client->AddSteps(Steps(10, 1));
  ASSERT_TRUE(engine.WaitFor([&] { return engine.StepCount() == 11; }));
  client->Stop(1000);
  EXPECT_EQ(engine.repeated_, 0u);
}

TEST_F(EngineClientTest, RestartedDaemonGoesOnWithItsSequenceAndIdentity) {
  {
    auto client = Connect();
    client->AddSteps(Steps(0, 10));
    ASSERT_TRUE(Eventually([&] { return client->counters().steps_spooled == 10; }));
    client->Stop(0);
  }
  FakeEngine engine(address_);
  auto client = Connect();
  client->AddSteps(Steps(10, 10));
  ASSERT_TRUE(engine.WaitFor([&] { return engine.StepCount() == 20; }));
  client->Stop(1000);
  ExpectEachStepOnce(engine, 20);
}

TEST_F(EngineClientTest, LiveRanksAreAnnouncedAgainBeforeTheirStates) {
  FakeEngine engine(address_);
  auto client = Connect();
  client->AddRank(Rank(1));
  client->AddRank(Rank(2));
  ASSERT_TRUE(Eventually([&] { return client->Idle() && client->counters().connects == 1; }));
  client->RemoveRank(1);
  engine.Shutdown();
  v1::RankState state;
  state.set_source(2);
  client->SetState(state);
  state.set_steps(5);
  client->SetState(state);
  engine.Listen();
  ASSERT_TRUE(engine.WaitFor([&] { return engine.states_.contains(2); }));
  client->Stop(1000);
  EXPECT_EQ(engine.states_[2].steps(), 5u);  // the latest only
  const std::string& order = engine.order_;
  EXPECT_LT(order.find('h'), order.find('b'));
  EXPECT_LT(order.find('b'), order.find('s'));
  const v1::Batch& last = engine.batches_.rbegin()->second;
  ASSERT_EQ(last.hellos_size(), 1);
  EXPECT_EQ(last.hellos(0).source(), 2u);
}

TEST_F(EngineClientTest, AcknowledgementOfWhatWasNeverSentIsNotBelieved) {
  FakeEngine engine(address_);
  engine.SetAcknowledge(false);
  auto client = Connect();
  client->AddSteps(Steps(0, 1));
  ASSERT_TRUE(engine.WaitFor([&] { return engine.StepCount() == 1; }));
  v1::EngineMessage lie;
  lie.mutable_ack()->set_sequence(1'000'000);
  engine.Send(lie);
  ASSERT_TRUE(Eventually([&] { return client->counters().steps_acknowledged == 1; }));
  client->AddSteps(Steps(1, 1));
  ASSERT_TRUE(engine.WaitFor([&] { return engine.StepCount() == 2; }));
  EXPECT_FALSE(client->Idle());
  client->Stop(0);
}

TEST_F(EngineClientTest, ControlsReachTheDaemon) {
  FakeEngine engine(address_);
  auto client = Connect();
  client->AddRank(Rank(1));
  ASSERT_TRUE(engine.WaitFor([&] { return !engine.batches_.empty(); }));
  v1::EngineMessage message;
  message.mutable_control()->mutable_job_switch()->set_enabled(false);
  engine.Send(message);
  ASSERT_TRUE(Eventually([&] { return controls_ == 1; }));
  EXPECT_FALSE(last_switch_job_on_);
}

TEST_F(EngineClientTest, LargeBacklogIsSplitIntoMessagesThatAServerTakes) {
  FakeEngine engine(address_);
  auto client = Connect();
  std::vector<v1::RankStep> steps = Steps(0, 300);
  for (auto& step : steps) step.add_phases()->set_name(std::string(20'000, 'x'));
  client->AddSteps(std::move(steps));
  ASSERT_TRUE(engine.WaitFor([&] { return engine.StepCount() == 300; }));
  client->Stop(1000);
  ExpectEachStepOnce(engine, 300);
}

TEST_F(EngineClientTest, StopWithoutAnEngineReturnsSoonAndLosesNothing) {
  auto client = Connect();
  client->AddSteps(Steps(0, 3));
  const uint64_t before = MonotonicNs();
  client->Stop(1000);
  EXPECT_LT(MonotonicNs() - before, 5'000'000'000u);
  EXPECT_EQ(client->counters().steps_spooled, 3u);
  EXPECT_EQ(client->counters().steps_lost, 0u);
}

}  // namespace
}  // namespace flare::daemon
