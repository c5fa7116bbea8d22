// SPDX-License-Identifier: Apache-2.0
// What the engine does with what daemons send, over a real socket.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "tests/diag/engine/engine_fixture.h"

namespace flare::diag {
namespace {

using testing::HasSubstr;

class EngineIngestTest : public EngineFixture {};

v1::Batch MakeBatch(uint64_t sequence, uint64_t source, uint64_t first_step, uint64_t steps) {
  v1::Batch batch;
  batch.set_sequence(sequence);
  for (uint64_t s = 0; s < steps; ++s) *batch.add_steps() = Step(source, first_step + s);
  return batch;
}

TEST_F(EngineIngestTest, WhatIsAcknowledgedIsOnDisk) {
  TestDaemon daemon(address(), "d");
  v1::Batch first = MakeBatch(1, 7, 0, 0);
  *first.add_hellos() = Hello(7, "job", 0, 1);
  ASSERT_TRUE(daemon.Send(first));
  const std::unique_ptr<Store> store = [&] {
    EXPECT_TRUE(daemon.WaitForAck(1));
    return OpenStore();
  }();
  for (uint64_t sequence = 2; sequence <= 21; ++sequence) {
    ASSERT_TRUE(daemon.Send(MakeBatch(sequence, 7, 10 * sequence, 10)));
    ASSERT_TRUE(daemon.WaitForAck(sequence));
    ASSERT_EQ(*store->CountSteps(), 10 * (sequence - 1));
    ASSERT_EQ((*store->FindDaemon("d"))->last_sequence, sequence);
  }
}

TEST_F(EngineIngestTest, ResentBatchIsAcknowledgedAgainAndStoredOnce) {
  v1::Batch batch = MakeBatch(1, 7, 0, 5);
  *batch.add_hellos() = Hello(7, "job", 0, 1);
  for (int connection = 0; connection < 3; ++connection) {
    TestDaemon daemon(address(), "d");
    ASSERT_TRUE(daemon.Send(batch));
    ASSERT_TRUE(daemon.WaitForAck(1));
  }
  EXPECT_EQ(*OpenStore()->CountSteps(), 5u);
  EXPECT_EQ(engine_->counters().batches_repeated, 2u);
  EXPECT_EQ(engine_->counters().steps_repeated, 10u);
}

// A daemon that lost its spool counts from 1 again; its steps are new all the same.
TEST_F(EngineIngestTest, NumberThatCameBeforeHidesNoNewSteps) {
  TestDaemon daemon(address(), "d");
  v1::Batch batch = MakeBatch(9, 7, 0, 5);
  *batch.add_hellos() = Hello(7, "job", 0, 1);
  ASSERT_TRUE(daemon.Send(batch));
  ASSERT_TRUE(daemon.WaitForAck(9));
  TestDaemon forgetful(address(), "d");
  ASSERT_TRUE(forgetful.Send(MakeBatch(1, 7, 5, 3)));
  ASSERT_TRUE(forgetful.WaitForAck(1));
  EXPECT_EQ(*OpenStore()->CountSteps(), 8u);
}

TEST_F(EngineIngestTest, RandomResendsAndOrdersStoreEachStepOnce) {
  std::mt19937 random(11);
  std::vector<v1::Batch> batches;
  for (uint64_t i = 0; i < 40; ++i) {
    batches.push_back(MakeBatch(i + 1, 7 + i % 4, i / 4 * 5, 7));  // steps overlap, too
    for (uint32_t r = 0; r < 4; ++r) *batches.back().add_hellos() = Hello(7 + r, "job", r, 4);
  }
  uint64_t sent_last = 0;
  for (int connection = 0; connection < 6; ++connection) {
    TestDaemon daemon(address(), "d");
    std::shuffle(batches.begin(), batches.end(), random);
    const size_t count = connection == 5 ? batches.size() : random() % batches.size();
    for (size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(daemon.Send(batches[i]));
      sent_last = batches[i].sequence();
    }
    if (random() % 2 == 0 && connection != 5) continue;  // gone without waiting
    v1::Batch last = MakeBatch(1000 + static_cast<uint64_t>(connection), 7, 0, 0);
    ASSERT_TRUE(daemon.Send(last));
    ASSERT_TRUE(daemon.WaitForAck(last.sequence())) << sent_last;
  }
  std::set<std::pair<uint64_t, uint64_t>> distinct;
  for (const v1::Batch& b : batches) {
    for (const v1::RankStep& s : b.steps()) distinct.emplace(s.source(), s.step());
  }
  EXPECT_EQ(*OpenStore()->CountSteps(), distinct.size());
}

TEST_F(EngineIngestTest, StreamMustBeginWithAHello) {
  TestDaemon daemon(address());
  ASSERT_TRUE(daemon.Send(MakeBatch(1, 7, 0, 1)));
  const grpc::Status status = daemon.WaitForEnd();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("begins with a DaemonHello"));
}

TEST_F(EngineIngestTest, OtherProtocolIsRefusedWithTheRemedy) {
  TestDaemon daemon(address(), "d", 2);
  const grpc::Status status = daemon.WaitForEnd();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("same version"));
}

TEST_F(EngineIngestTest, MalformedMessageEndsItsStreamOnly) {
  TestDaemon good(address(), "good");
  v1::DaemonMessage empty;
  v1::DaemonMessage second_hello;
  second_hello.mutable_hello()->set_daemon_id("x");
  v1::DaemonMessage no_number;
  no_number.mutable_batch();
  for (const v1::DaemonMessage& message : {empty, second_hello, no_number}) {
    TestDaemon bad(address(), "bad");
    ASSERT_TRUE(bad.Send(message));
    EXPECT_EQ(bad.WaitForEnd().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(engine_->counters().streams_refused, 3u);
  ASSERT_TRUE(good.Send(MakeBatch(1, 7, 0, 0)));
  EXPECT_TRUE(good.WaitForAck(1));
}

TEST_F(EngineIngestTest, MessageAbove4MegabytesEndsItsStreamOnly) {
  TestDaemon good(address(), "good");
  TestDaemon bad(address(), "bad");
  v1::Batch batch = MakeBatch(1, 7, 0, 0);
  batch.add_hellos()->set_job(std::string(5 << 20, 'x'));
  (void)bad.Send(batch);
  EXPECT_EQ(bad.WaitForEnd().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ASSERT_TRUE(good.Send(MakeBatch(1, 7, 0, 0)));
  EXPECT_TRUE(good.WaitForAck(1));
}

TEST_F(EngineIngestTest, BadItemsAreCountedAndTheOthersStored) {
  TestDaemon daemon(address(), "d");
  v1::Batch batch = MakeBatch(1, 7, 0, 3);
  *batch.add_hellos() = Hello(7, "job", 0, 1);
  *batch.add_hellos() = Hello(8, std::string(1 << 20, 'j'), 0, 1);
  *batch.add_hellos() = Hello(9, "job", 5, 5);
  *batch.add_hellos() = Hello(10, "job", 0, 2'000'000);
  *batch.add_steps() = Step(999, 1);  // nobody introduced
  batch.add_steps()->set_source(7);
  batch.mutable_steps()->rbegin()->set_start_unix_ns(UINT64_MAX);
  ASSERT_TRUE(daemon.Send(batch));
  ASSERT_TRUE(daemon.Send(State(888)));
  ASSERT_TRUE(daemon.WaitForAck(1));
  v1::Batch after = MakeBatch(2, 7, 3, 1);
  ASSERT_TRUE(daemon.Send(after));
  ASSERT_TRUE(daemon.WaitForAck(2));
  EXPECT_EQ(*OpenStore()->CountSteps(), 4u);
  EXPECT_EQ(engine_->counters().rejected, 6u);
  EXPECT_EQ(engine_->counters().unknown_sources, 2u);
  EXPECT_EQ(OpenStore()->ListJobs()->jobs_size(), 1);
}

// Several times what a stream may have under way, sent as fast as the socket takes it.
TEST_F(EngineIngestTest, FloodSlowsOnlyItself) {
  TestDaemon flood(address(), "flood");
  v1::Batch hello = MakeBatch(1, 7, 0, 0);
  *hello.add_hellos() = Hello(7, "flooded", 0, 1);
  ASSERT_TRUE(flood.Send(hello));
  std::atomic<bool> sent_all{true};
  std::thread flooding([&] {
    v1::DaemonMessage message;
    for (int i = 0; i < 200; ++i) {
      v1::RankState* state = message.mutable_states()->add_states();
      *state = State(7);
      state->mutable_process()->set_exception_text(std::string(3000, 'x'));
    }
    for (int i = 0; i < 60 && sent_all; ++i) sent_all = flood.Send(message);
    sent_all = sent_all && flood.Send(MakeBatch(2, 7, 0, 1));
  });
  TestDaemon other(address(), "other");
  for (uint64_t sequence = 1; sequence <= 10; ++sequence) {
    v1::Batch batch = MakeBatch(sequence, 8, sequence, 1);
    *batch.add_hellos() = Hello(8, "job", 0, 1);
    ASSERT_TRUE(other.Send(batch));
    EXPECT_TRUE(other.WaitForAck(sequence));
  }
  flooding.join();
  EXPECT_TRUE(sent_all);
  EXPECT_TRUE(flood.WaitForAck(2));
  EXPECT_EQ(engine_->counters().states, 60u * 200u);
}

TEST_F(EngineIngestTest, SixtyFourDaemonsStreamAtOnce) {
  constexpr uint64_t kDaemons = 64;
  constexpr uint64_t kBatches = 5;
  std::vector<std::unique_ptr<TestDaemon>> daemons;
  for (uint64_t d = 0; d < kDaemons; ++d) {
    daemons.push_back(std::make_unique<TestDaemon>(address(), std::to_string(d)));
  }
  for (uint64_t b = 1; b <= kBatches; ++b) {
    for (uint64_t d = 0; d < kDaemons; ++d) {
      v1::Batch batch = MakeBatch(b, 100 + d, b * 4, 4);
      if (b == 1) {
        *batch.add_hellos() =
            Hello(100 + d, "job", static_cast<uint32_t>(d), static_cast<uint32_t>(kDaemons));
      }
      ASSERT_TRUE(daemons[d]->Send(batch));
    }
  }
  for (auto& daemon : daemons) ASSERT_TRUE(daemon->WaitForAck(kBatches));
  EXPECT_EQ(engine_->counters().streams, kDaemons);
  EXPECT_EQ(*OpenStore()->CountSteps(), kDaemons * kBatches * 4);
}

}  // namespace
}  // namespace flare::diag
