// SPDX-License-Identifier: Apache-2.0
// What the engine answers, over a real socket.
#include <gmock/gmock.h>

#include "tests/diag/engine/engine_fixture.h"

namespace flare::diag {
namespace {

using testing::HasSubstr;

class EngineQueryTest : public EngineFixture {
 protected:
  // A job of two ranks with three steps each.
  void SendJob(TestDaemon* daemon, const std::string& job, uint64_t source) {
    v1::Batch batch;
    batch.set_sequence(++sequence_);
    for (uint32_t r = 0; r < 2; ++r) {
      *batch.add_hellos() = Hello(source + r, job, r, 2);
      for (uint64_t s = 0; s < 3; ++s) *batch.add_steps() = Step(source + r, s);
    }
    ASSERT_TRUE(daemon->Send(batch));
    ASSERT_TRUE(daemon->WaitForAck(sequence_));
  }

  uint64_t sequence_ = 0;
};

TEST_F(EngineQueryTest, ReportShowsJobAndRanks) {
  TestDaemon daemon(address(), "d");
  SendJob(&daemon, "job", 10);
  v1::Report report;
  ASSERT_TRUE(TestQuery(address()).GetReport("job", &report).ok());
  EXPECT_EQ(report.job().job(), "job");
  EXPECT_EQ(report.job().name(), "name of job");
  EXPECT_EQ(report.job().state(), "running");
  EXPECT_EQ(report.job().world_size(), 2u);
  EXPECT_EQ(report.job().ranks_alive(), 2u);
  EXPECT_EQ(report.job().steps(), 3u);
  EXPECT_DOUBLE_EQ(report.job().step_seconds_median(), 0.5);
  EXPECT_EQ(report.job().exit_status(), -1);
  ASSERT_EQ(report.ranks_size(), 2);
  EXPECT_EQ(report.ranks(1).pid(), 1001);
  EXPECT_EQ(report.ranks(1).state(), "running");
}

TEST_F(EngineQueryTest, VersionsAreThoseOfTheEngineAndOfConnectedDaemons) {
  TestQuery query(address());
  EXPECT_EQ(query.ListVersions().engine_version(), FLARE_VERSION);
  EXPECT_EQ(query.ListVersions().daemons_size(), 0);
  TestDaemon daemon(address(), "d");
  SendJob(&daemon, "job", 10);
  const v1::ListVersionsResponse versions = query.ListVersions();
  ASSERT_EQ(versions.daemons_size(), 1);
  EXPECT_EQ(versions.daemons(0).node(), "node-d");
  EXPECT_EQ(versions.daemons(0).version(), "version of d");
}

TEST_F(EngineQueryTest, JobIsFoundByIdentityByNameAndAsTheNewest) {
  TestDaemon daemon(address(), "d");
  SendJob(&daemon, "first", 10);
  SendJob(&daemon, "second", 20);
  TestQuery query(address());
  v1::Report report;
  ASSERT_TRUE(query.GetReport("name of first", &report).ok());
  EXPECT_EQ(report.job().job(), "first");
  ASSERT_TRUE(query.GetReport("", &report).ok());
  EXPECT_EQ(report.job().job(), "second");
  const v1::ListJobsResponse jobs = query.ListJobs();
  ASSERT_EQ(jobs.jobs_size(), 2);
  EXPECT_EQ(jobs.jobs(0).job(), "second");
}

TEST_F(EngineQueryTest, UnknownJobNamesThoseThatExist) {
  TestDaemon daemon(address(), "d");
  SendJob(&daemon, "job", 10);
  TestQuery query(address());
  v1::Report report;
  uint32_t told = 0;
  for (const grpc::Status& status : {query.GetReport("x", &report), query.EndJob("x", 0, &report),
                                     query.SwitchJob("x", false, &told)}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_THAT(status.error_message(), HasSubstr("no job 'x'; known: job"));
  }
  EXPECT_FALSE(query.Watch("x", 0, [](const v1::Report&) { return true; }));
  EXPECT_EQ(query.watch_status().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(EngineQueryTest, WatchSendsTheReportWheneverItChanges) {
  TestDaemon daemon(address(), "d");
  SendJob(&daemon, "job", 10);
  uint64_t next_step = 3;
  int reports = 0;
  EXPECT_TRUE(TestQuery(address()).Watch("job", 600'000, [&](const v1::Report& report) {
    ++reports;
    EXPECT_EQ(report.job().steps(), next_step);
    if (next_step == 6) return true;
    v1::Batch batch;
    batch.set_sequence(++sequence_);
    for (uint64_t r = 0; r < 2; ++r) *batch.add_steps() = Step(10 + r, next_step);
    ++next_step;
    EXPECT_TRUE(daemon.Send(batch));
    return false;
  }));
  EXPECT_EQ(reports, 4);
}

TEST_F(EngineQueryTest, WatchSendsHeartbeatsWhileNothingChanges) {
  TestDaemon daemon(address(), "d");
  SendJob(&daemon, "job", 10);
  int reports = 0;
  EXPECT_TRUE(
      TestQuery(address()).Watch("job", 50, [&](const v1::Report&) { return ++reports == 4; }));
}

TEST_F(EngineQueryTest, EndedJobHasItsStatusAndStaysReadable) {
  TestDaemon daemon(address(), "d");
  SendJob(&daemon, "job", 10);
  v1::Report report;
  ASSERT_TRUE(TestQuery(address()).EndJob("job", 3, &report).ok());
  EXPECT_EQ(report.job().state(), "ended");
  EXPECT_EQ(report.job().exit_status(), 3);
  EXPECT_EQ(report.job().steps(), 3u);
  engine_->Stop();
  const Result<v1::Report> stored = OpenStore()->LoadReport("job");
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  EXPECT_EQ(stored->job().state(), "ended");
  EXPECT_EQ(stored->job().exit_status(), 3);
  ASSERT_EQ(stored->ranks_size(), 2);
  EXPECT_EQ(stored->ranks(0).steps(), 3u);
}

TEST_F(EngineQueryTest, JobOfAnEarlierEngineIsAnsweredFromTheStore) {
  {
    TestDaemon daemon(address(), "d");
    SendJob(&daemon, "old", 10);
    v1::Report report;
    ASSERT_TRUE(TestQuery(address()).EndJob("old", 0, &report).ok());
  }
  RestartEngine();
  TestQuery query(address());
  v1::Report report;
  ASSERT_TRUE(query.GetReport("old", &report).ok());
  EXPECT_EQ(report.job().state(), "ended");
  int reports = 0;
  EXPECT_TRUE(query.Watch("old", 50, [&](const v1::Report& r) {
    EXPECT_EQ(r.ranks_size(), 2);
    return ++reports == 2;
  }));
  EXPECT_EQ(query.ListJobs().jobs_size(), 1);
}

TEST_F(EngineQueryTest, SwitchReachesTheDaemonsOfTheJobNowAndLater) {
  TestDaemon with_ranks(address(), "with");
  TestDaemon without(address(), "without");
  SendJob(&with_ranks, "job", 10);
  uint32_t told = 0;
  ASSERT_TRUE(TestQuery(address()).SwitchJob("job", false, &told).ok());
  EXPECT_EQ(told, 1u);
  const std::optional<v1::JobSwitch> now = with_ranks.WaitForSwitch();
  ASSERT_TRUE(now.has_value());
  EXPECT_EQ(now->job(), "job");
  EXPECT_FALSE(now->enabled());

  RestartEngine();
  TestDaemon later(address(), "with");
  SendJob(&later, "job", 10);
  const std::optional<v1::JobSwitch> again = later.WaitForSwitch();
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->enabled());
}

}  // namespace
}  // namespace flare::diag
