// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/job_table.h"

#include <gtest/gtest.h>

namespace flare::diag {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kStart = 1'800'000'000 * kSecond;

class FakeArchive : public JobArchive {
 public:
  std::optional<JobMemory> LoadNewest(const std::string&) override { return std::nullopt; }
  std::optional<JobMemory> Load(JobKey) override { return std::nullopt; }
  std::optional<SourcePlace> FindSource(SourceId) override {
    ++searches;
    return std::nullopt;
  }
  int searches = 0;
};

class FakeStream : public DaemonStream {
 public:
  void Release(size_t) override {}
  void Acknowledge(uint64_t) override {}
  bool SwitchJob(const std::string& job, bool enabled) override {
    switches.emplace_back(job, enabled);
    return true;
  }
  std::vector<std::pair<std::string, bool>> switches;
};

v1::RankHello MakeHello(uint64_t source, const std::string& job, uint32_t rank = 0,
                        uint64_t started = kStart) {
  v1::RankHello hello;
  hello.set_source(source);
  hello.set_job(job);
  hello.set_rank(rank);
  hello.set_world_size(2);
  hello.set_started_unix_ns(started);
  return hello;
}

CheckedStep MakeStep(uint64_t source, uint64_t step) {
  CheckedStep out;
  out.source = SourceId(source);
  out.step.step = StepId(step);
  return out;
}

class JobTableTest : public testing::Test {
 protected:
  JobTableTest() : table_("owner", &archive_), daemon_(table_.FindOrAddDaemon("d")) {
    daemon_->stream = stream_;
  }

  StoreWrites Take(CheckedBatch batch, uint64_t now = kStart) {
    batch.sequence = ++sequence_;
    StoreWrites writes;
    table_.TakeBatch(daemon_, std::move(batch), now, &writes);
    return writes;
  }
  StoreWrites Take(const v1::RankHello& hello, uint64_t now = kStart) {
    CheckedBatch batch;
    batch.hellos = {hello};
    return Take(std::move(batch), now);
  }

  FakeArchive archive_;
  JobTable table_;
  std::shared_ptr<FakeStream> stream_ = std::make_shared<FakeStream>();
  std::shared_ptr<Daemon> daemon_;
  uint64_t sequence_ = 0;
};

TEST_F(JobTableTest, BatchBecomesOneSetOfWrites) {
  CheckedBatch batch;
  batch.hellos = {MakeHello(5, "job")};
  batch.steps.push_back(MakeStep(5, 3));
  const StoreWrites writes = Take(std::move(batch));
  ASSERT_EQ(writes.jobs.size(), 1u);
  EXPECT_EQ(writes.jobs.begin()->second.summary.job(), "job");
  EXPECT_EQ(writes.jobs.begin()->second.owner, "owner");
  EXPECT_EQ(writes.ranks.size(), 1u);
  ASSERT_EQ(writes.steps.size(), 1u);
  EXPECT_EQ(writes.steps[0].job, writes.jobs.begin()->first);
  EXPECT_EQ(writes.steps[0].source, 5u);
  EXPECT_EQ(writes.daemons.at("d").last_sequence, 1u);
}

TEST_F(JobTableTest, StepsOfAnEarlierAttemptAreStoredWithIt) {
  Take(MakeHello(5, "job"));
  v1::RankHello next = MakeHello(6, "job");
  next.set_attempt(1);
  Take(next);
  CheckedBatch late;
  late.steps.push_back(MakeStep(5, 3));
  const StoreWrites writes = Take(std::move(late));
  ASSERT_EQ(writes.steps.size(), 1u);
  EXPECT_EQ(writes.steps[0].attempt, 0u);
  EXPECT_TRUE(table_.Find("job")->job().ranks.at(Rank(0)).steps.empty());
}

TEST_F(JobTableTest, NextRunWithTheSameIdentityIsAJobOfItsOwn) {
  Take(MakeHello(5, "localhost:29500"));
  LiveJob* first = table_.Find("localhost:29500");
  first->End(0, kStart + kSecond);
  Take(MakeHello(6, "localhost:29500", 0, kStart + 2 * kSecond), kStart + 3 * kSecond);
  LiveJob* second = table_.Find("localhost:29500");
  EXPECT_NE(first->key(), second->key());
  // A late step of the first run stays with it.
  CheckedBatch late;
  late.steps.push_back(MakeStep(5, 3));
  EXPECT_EQ(Take(std::move(late)).steps.at(0).job, first->key());
}

TEST_F(JobTableTest, DaemonSpeaksOnlyForProcessesItIntroduced) {
  Take(MakeHello(5, "job"));
  const std::shared_ptr<Daemon> other = table_.FindOrAddDaemon("other");
  CheckedBatch batch;
  batch.sequence = 1;
  batch.steps.push_back(MakeStep(5, 3));
  StoreWrites writes;
  table_.TakeBatch(other, std::move(batch), kStart, &writes);
  EXPECT_TRUE(writes.steps.empty());
  EXPECT_EQ(table_.counters().unknown_sources, 1u);
}

TEST_F(JobTableTest, MessageFullOfUnknownSourcesSearchesTheStoreAFewTimesOnly) {
  CheckedBatch batch;
  for (uint64_t i = 0; i < 100'000; ++i) batch.steps.push_back(MakeStep(1000 + i, 1));
  Take(std::move(batch));
  EXPECT_EQ(table_.counters().unknown_sources, 100'000u);
  EXPECT_LE(archive_.searches, 1000);
}

TEST_F(JobTableTest, DaemonMayBringSoManyProcessesAndNoMore) {
  CheckedBatch batch;
  for (uint64_t i = 0; i < kMaxSourcesPerDaemon + 7; ++i) {
    batch.hellos.push_back(MakeHello(1 + i, "job"));
  }
  Take(std::move(batch));
  EXPECT_EQ(table_.counters().rejected, 7u);
  EXPECT_EQ(daemon_->sources, kMaxSourcesPerDaemon);
}

TEST_F(JobTableTest, OldJobsLeaveMemoryUnlessWatched) {
  Take(MakeHello(5, "ended"));
  Take(MakeHello(6, "watched"));
  Take(MakeHello(7, "silent"));
  table_.Find("ended")->End(0, kStart);
  table_.Find("watched")->End(0, kStart);
  table_.Forget(kStart + kForgetEndedAfterNs + 1, {table_.Find("watched")->key()});
  EXPECT_EQ(table_.Find("ended"), nullptr);
  EXPECT_NE(table_.Find("watched"), nullptr);
  EXPECT_NE(table_.Find("silent"), nullptr);
  EXPECT_EQ(daemon_->sources, 2u);
  table_.Forget(kStart + kForgetLostAfterNs + 1, {});
  EXPECT_TRUE(table_.Jobs().empty());
  EXPECT_EQ(daemon_->sources, 0u);
}

TEST_F(JobTableTest, SwitchIsToldNowAndToLaterRanks) {
  Take(MakeHello(5, "job"));
  StoreWrites writes;
  EXPECT_EQ(table_.SwitchJob(table_.Find("job"), false, &writes, kStart), 1u);
  EXPECT_FALSE(writes.jobs.begin()->second.hooks_enabled);
  Take(MakeHello(6, "job", 1));
  const std::vector<std::pair<std::string, bool>> expected = {{"job", false}, {"job", false}};
  EXPECT_EQ(stream_->switches, expected);
}

}  // namespace
}  // namespace flare::diag
