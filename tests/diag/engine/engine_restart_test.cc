// SPDX-License-Identifier: Apache-2.0
// What an engine knows after a restart, and who may run beside it.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/diag/engine/engine_fixture.h"

namespace flare::diag {
namespace {

using testing::HasSubstr;

class EngineRestartTest : public EngineFixture {
 protected:
  // Two ranks; rank 1 has been stopped for three seconds.
  void SendStoppedJob(TestDaemon* daemon, uint64_t sequence) {
    v1::Batch batch;
    batch.set_sequence(sequence);
    for (uint32_t r = 0; r < 2; ++r) *batch.add_hellos() = Hello(10 + r, "job", r, 2);
    ASSERT_TRUE(daemon->Send(batch));
    ASSERT_TRUE(daemon->WaitForAck(sequence));
    SendStates(daemon);
  }

  void SendStates(TestDaemon* daemon) {
    ASSERT_TRUE(daemon->Send(State(11, "T", 3'000'000'000)));
    ASSERT_TRUE(daemon->Send(State(10, "S")));
    ASSERT_TRUE(daemon->Send(State(11, "T")));
  }

  bool WaitForOpenFinding(TestDaemon* daemon, v1::Report* report) {
    return TestQuery(address()).Watch("job", 200, [&](const v1::Report& r) {
      *report = r;
      if (r.job().open_findings() > 0) return true;
      SendStates(daemon);
      return false;
    });
  }
};

TEST_F(EngineRestartTest, OpenFindingIsContinuedAndNotDoubled) {
  v1::Report before;
  {
    TestDaemon daemon(address(), "d");
    SendStoppedJob(&daemon, 1);
    ASSERT_TRUE(WaitForOpenFinding(&daemon, &before));
  }
  ASSERT_EQ(before.findings(0).cause(), "process_stopped");
  RestartEngine();

  v1::Report silent;  // no daemon has spoken yet
  ASSERT_TRUE(TestQuery(address()).GetReport("job", &silent).ok());
  ASSERT_EQ(silent.findings_size(), before.findings_size());
  EXPECT_EQ(silent.findings(0).state(), "open");
  EXPECT_EQ(silent.ranks_size(), 2);
  EXPECT_EQ(silent.ranks(1).state(), "lost");

  TestDaemon daemon(address(), "d");
  SendStoppedJob(&daemon, 2);
  v1::Report after;
  int looks = 0;
  ASSERT_TRUE(TestQuery(address()).Watch("job", 100, [&](const v1::Report& r) {
    after = r;
    SendStates(&daemon);
    return ++looks == 8;
  }));
  ASSERT_EQ(after.findings_size(), before.findings_size());
  EXPECT_EQ(after.findings(0).id(), before.findings(0).id());
  EXPECT_EQ(after.findings(0).state(), "open");
  EXPECT_EQ(after.findings(0).first_seen_unix_ns(), before.findings(0).first_seen_unix_ns());
}

TEST_F(EngineRestartTest, StepsOfARankThatWasIntroducedToTheEngineBeforeAreKept) {
  {
    TestDaemon daemon(address(), "d");
    SendStoppedJob(&daemon, 1);
  }
  RestartEngine();
  TestDaemon daemon(address(), "d");  // the process is gone: no hello comes again
  v1::Batch batch;
  batch.set_sequence(2);
  *batch.add_steps() = Step(10, 0);
  ASSERT_TRUE(daemon.Send(batch));
  ASSERT_TRUE(daemon.WaitForAck(2));
  EXPECT_EQ(*OpenStore()->CountSteps(), 1u);
  EXPECT_EQ(engine_->counters().unknown_sources, 0u);
}

TEST_F(EngineRestartTest, RecentStepsAreBackInMemory) {
  {
    TestDaemon daemon(address(), "d");
    v1::Batch batch;
    batch.set_sequence(1);
    *batch.add_hellos() = Hello(10, "job", 0, 1);
    for (uint64_t s = 0; s < 9; ++s) *batch.add_steps() = Step(10, s);
    ASSERT_TRUE(daemon.Send(batch));
    ASSERT_TRUE(daemon.WaitForAck(1));
  }
  RestartEngine();
  v1::Report report;
  ASSERT_TRUE(TestQuery(address()).GetReport("job", &report).ok());
  EXPECT_EQ(report.job().steps(), 9u);
  EXPECT_DOUBLE_EQ(report.job().step_seconds_median(), 0.5);
}

TEST_F(EngineRestartTest, SecondAdvertisedEngineIsRefused) {
  EngineOptions options;
  options.state_dir = dir_ / "state";
  options.listen = "127.0.0.1:0";
  options.advertise = true;
  const Result<std::unique_ptr<Engine>> second = Engine::Start(options);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), HasSubstr("another flare-engine runs here"));
}

TEST_F(EngineRestartTest, EngineOfARunSharesTheStateAndLeavesTheJobsOfOthersAlone) {
  TestDaemon daemon(address(), "d");
  SendStoppedJob(&daemon, 1);
  EngineOptions options;
  options.state_dir = dir_ / "state";
  options.listen = "127.0.0.1:0";
  const Result<std::unique_ptr<Engine>> second = Engine::Start(options);
  ASSERT_TRUE(second.ok()) << second.status().message();
  TestDaemon other((*second)->address(), "other");
  v1::Batch batch;
  batch.set_sequence(1);
  *batch.add_hellos() = Hello(90, "job", 0, 1);  // another job with the same identity
  ASSERT_TRUE(other.Send(batch));
  ASSERT_TRUE(other.WaitForAck(1));
  EXPECT_EQ(OpenStore()->ListJobs()->jobs_size(), 2);
}

TEST_F(EngineRestartTest, SocketOfALivingEngineIsNotTaken) {
  EngineOptions options;
  options.state_dir = dir_ / "elsewhere";
  options.listen = address();
  const Result<std::unique_ptr<Engine>> second = Engine::Start(options);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), HasSubstr("another program does already"));
  v1::Report report;
  EXPECT_EQ(TestQuery(address()).GetReport("", &report).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(EngineRestartTest, AddressIsWrittenWhileItRuns) {
  const std::string file = dir_ / "state/engine.addr";
  std::string line;
  std::getline(std::ifstream(file), line);
  EXPECT_EQ(line, address());
  engine_.reset();
  EXPECT_FALSE(std::ifstream(file).good());
}

TEST_F(EngineRestartTest, StoppedEngineEndsStreamsAndWatches) {
  TestDaemon daemon(address(), "d");
  SendStoppedJob(&daemon, 1);
  bool stopped = false;
  TestQuery query(address());
  EXPECT_FALSE(query.Watch("job", 50, [&](const v1::Report&) {
    if (!std::exchange(stopped, true)) engine_->Stop();
    return false;
  }));
  EXPECT_FALSE(daemon.WaitForEnd().ok());
}

}  // namespace
}  // namespace flare::diag
