// SPDX-License-Identifier: Apache-2.0
#include "diag/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <random>
#include <set>

#include "diag/store/convert.h"
#include "tests/diag/store/store_values.h"
#include "tests/diag/store/temp_dir.h"

namespace flare::diag {
namespace {

using testing::HasSubstr;

class StoreTest : public testing::Test {
 protected:
  std::string path() const { return dir_ / "flare.db"; }
  std::unique_ptr<Store> Open(OpenMode mode = OpenMode::kReadWrite) {
    Result<std::unique_ptr<Store>> store = Store::Open(path(), mode);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.ok() ? std::move(*store) : nullptr;
  }

  TempDir dir_;
};

TEST_F(StoreTest, ReportComesBackAsItWasStored) {
  StoreWrites writes;
  Add(&writes, MakeJob(1, "job-a"));
  Add(&writes, MakeRank(1, 0, 50));
  Add(&writes, MakeRank(1, 3, 53));
  Add(&writes, 1, MakeFinding("job-a", "job-a-1"));
  ASSERT_TRUE(Open()->Apply(writes).ok());

  const Result<v1::Report> report = Open(OpenMode::kReadOnly)->LoadReport("job-a");
  ASSERT_TRUE(report.ok()) << report.status().message();
  v1::JobSummary job = MakeJob(1, "job-a").summary;
  job.set_open_findings(1);
  job.set_last_seen_unix_ns(report->job().last_seen_unix_ns());
  EXPECT_EQ(report->job().DebugString(), job.DebugString());
  ASSERT_EQ(report->findings_size(), 1);
  EXPECT_EQ(report->findings(0).DebugString(),
            FindingToProto(MakeFinding("job-a", "job-a-1")).DebugString());
  ASSERT_EQ(report->ranks_size(), 2);
  EXPECT_EQ(report->ranks(1).rank(), 3u);
}

TEST_F(StoreTest, JobMemoryKeepsWhatTheTrackerNeeds) {
  StoreWrites writes;
  Add(&writes, MakeJob(1, "job-a"));
  Add(&writes, MakeRank(1, 0, 50));
  Add(&writes, 1, MakeFinding("job-a", "job-a-1"));
  for (uint64_t s : {4, 2, 3}) writes.steps.push_back(MakeStep(1, 0, s));
  const std::unique_ptr<Store> store = Open();
  ASSERT_TRUE(store->Apply(writes).ok());

  const Result<JobMemory> memory = store->LoadJob(JobKey(1), 1);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  ASSERT_EQ(memory->findings.size(), 1u);
  const Verdict& v = memory->findings[0].verdict;
  EXPECT_TRUE(v.conclusive);
  EXPECT_EQ(v.since_unix_ns, 9u);
  EXPECT_EQ(v.open_after_unix_ns, 77u);
  EXPECT_EQ(v.lost_share, 0.5);
  EXPECT_EQ(memory->job.owner, "00112233445566aa");
  // One step for each of the two ranks the summary counts, oldest first.
  ASSERT_EQ(memory->steps.size(), 2u);
  EXPECT_EQ(memory->steps[0].step, 3u);
  EXPECT_EQ(memory->steps[1].step, 4u);
}

TEST_F(StoreTest, SameStepIsStoredOnce) {
  StoreWrites writes;
  for (uint64_t s : {1, 2, 1}) writes.steps.push_back(MakeStep(1, 0, s));
  const std::unique_ptr<Store> store = Open();
  const Result<ApplyCounts> first = store->Apply(writes);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->steps_stored, 2u);
  EXPECT_EQ(first->steps_repeated, 1u);
  EXPECT_EQ(store->Apply(writes)->steps_repeated, 3u);
  EXPECT_EQ(*store->CountSteps(), 2u);
}

TEST_F(StoreTest, RestartedRankDoesNotHideBehindItsPredecessor) {
  StoreWrites writes;
  writes.steps.push_back(MakeStep(1, 0, 7, 0, 501));
  writes.steps.push_back(MakeStep(1, 0, 7, 0, 502));
  const std::unique_ptr<Store> store = Open();
  EXPECT_EQ(store->Apply(writes)->steps_stored, 2u);
}

TEST_F(StoreTest, RandomRepeatsAndOrdersStoreEachStepOnce) {
  std::mt19937 random(7);
  const std::unique_ptr<Store> store = Open();
  std::set<std::pair<uint32_t, uint64_t>> sent;
  for (int round = 0; round < 50; ++round) {
    StoreWrites writes;
    for (int i = 0; i < 40; ++i) {
      const uint32_t rank = random() % 8;
      const uint64_t step = random() % 100;
      sent.emplace(rank, step);
      writes.steps.push_back(MakeStep(1, rank, step));
    }
    ASSERT_TRUE(store->Apply(writes).ok());
    ASSERT_EQ(*store->CountSteps(), sent.size());
  }
}

TEST_F(StoreTest, SequenceOfADaemonNeverGoesBack) {
  const std::unique_ptr<Store> store = Open();
  for (uint64_t sequence : {5, 9, 7}) {
    StoreWrites writes;
    writes.daemons["d"] = {"node-a", sequence, 1};
    ASSERT_TRUE(store->Apply(writes).ok());
  }
  EXPECT_EQ((*store->FindDaemon("d"))->last_sequence, 9u);
  EXPECT_FALSE(store->FindDaemon("other")->has_value());
}

TEST_F(StoreTest, SourceLeadsToItsRank) {
  StoreWrites writes;
  Add(&writes, MakeRank(4, 2, 0xfedcba9876543210));
  const std::unique_ptr<Store> store = Open();
  ASSERT_TRUE(store->Apply(writes).ok());
  const Result<std::optional<SourcePlace>> place = store->FindSource(SourceId(0xfedcba9876543210));
  ASSERT_TRUE(place.ok() && place->has_value());
  EXPECT_EQ((*place)->job, JobKey(4));
  EXPECT_EQ((*place)->rank, Rank(2));
}

TEST_F(StoreTest, ReaderSeesEachCommitOfALivingWriter) {
  const std::unique_ptr<Store> writer = Open();
  const std::unique_ptr<Store> reader = Open(OpenMode::kReadOnly);
  for (int64_t key = 1; key <= 3; ++key) {
    StoreWrites writes;
    Add(&writes, MakeJob(key, "job"));
    ASSERT_TRUE(writer->Apply(writes).ok());
    EXPECT_EQ(reader->ListJobs()->jobs_size(), key);
  }
}

TEST_F(StoreTest, ReadOnlyStoreRefusesToWrite) {
  (void)Open();
  StoreWrites writes;
  Add(&writes, MakeJob(1, "job"));
  const Result<ApplyCounts> counts = Open(OpenMode::kReadOnly)->Apply(writes);
  ASSERT_FALSE(counts.ok());
  EXPECT_THAT(counts.status().message(), HasSubstr("may not be written"));
}

// As the command line of another user: no place for a write-ahead log, and none needed.
TEST_F(StoreTest, ClosedStoreIsReadableWithoutWritePermission) {
  StoreWrites writes;
  Add(&writes, MakeJob(1, "job"));
  ASSERT_TRUE(Open()->Apply(writes).ok());
  chmod(path().c_str(), 0444);
  chmod(dir_.path().c_str(), 0555);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
    const Result<std::unique_ptr<Store>> store = Store::Open(path(), OpenMode::kReadOnly);
    _exit(store.ok() && (*store)->ListJobs()->jobs_size() == 1 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  chmod(dir_.path().c_str(), 0755);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(StoreTest, IdentityBeforeNameAndNewestFirst) {
  StoreWrites writes;
  Add(&writes, MakeJob(1, "a"));
  Add(&writes, MakeJob(2, "a"));
  StoredJob named = MakeJob(3, "b");
  named.summary.set_name("a");
  Add(&writes, named);
  const std::unique_ptr<Store> store = Open();
  ASSERT_TRUE(store->Apply(writes).ok());
  EXPECT_EQ(**store->FindJob("a"), JobKey(2));
  EXPECT_EQ(**store->FindJob("b"), JobKey(3));
  EXPECT_EQ(**store->FindJob(""), JobKey(3));
  EXPECT_FALSE(store->FindJob("c")->has_value());
  EXPECT_EQ(store->ListJobs({JobKey(3)})->jobs_size(), 2);
}

TEST_F(StoreTest, UnknownJobNamesThoseThatExist) {
  const std::unique_ptr<Store> store = Open();
  EXPECT_EQ(store->LoadReport("x").status().message(), "no job is known yet");
  StoreWrites writes;
  for (int64_t key = 1; key <= 7; ++key) Add(&writes, MakeJob(key, "job-" + std::to_string(key)));
  ASSERT_TRUE(store->Apply(writes).ok());
  EXPECT_THAT(store->LoadReport("x").status().message(),
              testing::AllOf(HasSubstr("no job 'x'"), HasSubstr("job-7 (name of job-7)"),
                             HasSubstr("and 2 more")));
}

TEST_F(StoreTest, UnfinishedJobLongUnheardOfIsLost) {
  StoredJob silent = MakeJob(1, "silent");
  silent.summary.set_last_seen_unix_ns(RealtimeNs() - kLostAfterNs - 1'000'000'000);
  StoredJob ended = MakeJob(2, "ended");
  ended.summary.set_state("ended");
  StoreWrites writes;
  Add(&writes, silent);
  Add(&writes, ended);
  const std::unique_ptr<Store> store = Open();
  ASSERT_TRUE(store->Apply(writes).ok());
  EXPECT_EQ(store->LoadReport("silent")->job().state(), "lost");
  const Result<std::vector<StoredJob>> unfinished = store->UnfinishedJobs();
  ASSERT_EQ(unfinished->size(), 1u);
  EXPECT_EQ(unfinished->front().key, JobKey(1));
}

TEST_F(StoreTest, FailedTransactionStoresNothing) {
  const std::unique_ptr<Store> store = Open();
  const std::unique_ptr<Database> other = std::move(*Database::Open(path(), OpenMode::kReadWrite));
  ASSERT_TRUE(other->Execute("ALTER TABLE daemons RENAME TO elsewhere").ok());
  StoreWrites writes;
  writes.steps.push_back(MakeStep(1, 0, 1));
  writes.daemons["d"] = {"node-a", 1, 1};
  EXPECT_FALSE(store->Apply(writes).ok());
  EXPECT_EQ(*store->CountSteps(), 0u);
  ASSERT_TRUE(other->Execute("ALTER TABLE elsewhere RENAME TO daemons").ok());
  EXPECT_TRUE(store->Apply(writes).ok());
  EXPECT_EQ(*store->CountSteps(), 1u);
}

TEST_F(StoreTest, NumbersThatAreNoneAndTextThatIsNotUtf8AreStored) {
  Finding finding = MakeFinding("job", "job-1");
  finding.gpu_hours_lost = std::nan("");
  finding.verdict.evidence = {{"bad \xff byte", "m", std::nan(""), "s", {}}};
  StoreWrites writes;
  Add(&writes, MakeJob(1, "job"));
  Add(&writes, 1, finding);
  const std::unique_ptr<Store> store = Open();
  const Result<ApplyCounts> counts = store->Apply(writes);
  ASSERT_TRUE(counts.ok()) << counts.status().message();
  const Result<JobMemory> memory = store->LoadJob(JobKey(1), 1);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->findings[0].gpu_hours_lost, 0);
  EXPECT_FALSE(memory->findings[0].verdict.evidence[0].value.has_value());
}

}  // namespace
}  // namespace flare::diag
