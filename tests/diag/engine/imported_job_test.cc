// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/imported_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/diag/detect/job_builder.h"
#include "tests/diag/store/temp_dir.h"

namespace flare::diag {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kImportedAt = kTestNow + 86'400'000'000'000;

ImportFacts Facts(std::vector<std::string> notes = {}) {
  return {JobBuilder::now(), true, kImportedAt, std::move(notes)};
}

// Rank 2 of four is stopped and the others wait for it.
JobBuilder Stopped() {
  JobBuilder builder(4);
  builder.job.id = "imported-1";
  builder.job.name = "imported";
  builder[2].RunState('T').StoppedFor(30).NoProgressFor(30);
  for (uint32_t r : {0u, 1u, 3u}) builder[r].WaitsIn(kDefaultGroup, 30).NoProgressFor(30);
  return builder;
}

std::unique_ptr<Store> OpenStore(const TempDir& dir) {
  return std::move(*Store::Open(dir / "flare.db", OpenMode::kReadWrite));
}

TEST(ImportedJobTest, WhatIsCertainAtThatMomentIsOpenSinceItBegan) {
  const JobBuilder builder = Stopped();
  const ImportedJob job(builder.job, Facts());
  ASSERT_THAT(job.findings(), SizeIs(1));
  const Finding& finding = job.findings()[0];
  EXPECT_EQ(finding.verdict.cause, "process_stopped");
  EXPECT_EQ(finding.state, FindingState::kOpen);
  EXPECT_LE(job.report().findings(0).since_unix_ns(), SecondsAgo(29));
  EXPECT_EQ(finding.last_seen_unix_ns, kTestNow);
  EXPECT_GT(finding.gpu_hours_lost, 0);
  EXPECT_EQ(job.report().job().state(), "imported");
  EXPECT_EQ(job.report().job().open_findings(), 1u);
  EXPECT_EQ(job.report().job().imported_unix_ns(), kImportedAt);
}

TEST(ImportedJobTest, WhatNeedsTimeStaysASuspicion) {
  JobBuilder builder(4);
  builder[2].NoProgressFor(20).InCall(EventKind::kDataLoad, 20).Frames({UserFrame()});
  for (uint32_t r : {0u, 1u, 3u}) builder[r].WaitsIn(kDefaultGroup, 20).NoProgressFor(20);
  const ImportedJob job(builder.job, Facts());
  ASSERT_THAT(job.findings(), SizeIs(1));
  EXPECT_EQ(job.findings()[0].state, FindingState::kSuspected);
}

TEST(ImportedJobTest, TimesWithoutOriginAreNotShown) {
  const JobBuilder builder = Stopped();
  ImportFacts facts = Facts();
  facts.absolute_time = false;
  const ImportedJob job(builder.job, facts);
  EXPECT_EQ(job.report().job().first_seen_unix_ns(), 0u);
  EXPECT_EQ(job.report().job().last_seen_unix_ns(), 0u);
  EXPECT_EQ(job.report().findings(0).first_seen_unix_ns(), 0u);
  EXPECT_EQ(job.report().findings(0).since_unix_ns(), 0u);
  EXPECT_GT(job.report().findings(0).gpu_hours_lost(), 0);
}

TEST(ImportedJobTest, StepsAloneDoNotTellWhetherARankLives) {
  JobBuilder builder(2);
  builder.job.ranks.at(Rank(1)).state = RankState();
  const ImportedJob job(builder.job, Facts());
  EXPECT_EQ(job.report().ranks(0).state(), "running");
  EXPECT_EQ(job.report().ranks(1).state(), "unknown");
  EXPECT_EQ(job.report().job().ranks_alive(), 1u);
}

TEST(ImportedJobTest, StoreGivesBackTheSameReport) {
  const TempDir dir;
  JobBuilder builder = Stopped();
  builder.job.ranks.at(Rank(1)).steps.back().device.emplace().span_ns = 77;
  std::vector<std::unique_ptr<ImportedJob>> jobs;
  jobs.push_back(std::make_unique<ImportedJob>(builder.job, Facts({"first", "two\nlines"})));
  const auto store = OpenStore(dir);
  ASSERT_TRUE(SaveAll(jobs, store.get()).ok());
  const Result<v1::Report> stored = store->LoadReport("imported");
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  EXPECT_EQ(stored->SerializeAsString(), jobs[0]->report().SerializeAsString());
  EXPECT_THAT(stored->notes(), ElementsAre("first", "two lines"));
  EXPECT_THAT(stored->profiles(), SizeIs(1));
}

TEST(ImportedJobTest, AllStepsAreStoredAndStayUntilTheImportIsOld) {
  const TempDir dir;
  JobBuilder builder(2, 5000);
  builder.job.id = "long";
  for (auto& [rank, record] : builder.job.ranks) {
    record.steps.clear();
    for (uint64_t i = 0; i < 5000; ++i) record.steps.emplace_back().step = StepId(i);
  }
  std::vector<std::unique_ptr<ImportedJob>> jobs;
  jobs.push_back(std::make_unique<ImportedJob>(builder.job, Facts()));
  const auto store = OpenStore(dir);
  ASSERT_TRUE(SaveAll(jobs, store.get()).ok());
  EXPECT_EQ(*store->CountSteps(), 10'000u);
  EXPECT_EQ(*store->Trim({}, 1'000'000, kImportedAt), 0u);
  EXPECT_EQ(*store->Trim({}, 1'000'000, kImportedAt + uint64_t{31} * 86'400'000'000'000), 10'000u);
}

TEST(ImportedJobTest, ImportIsNeverLostNorContinuedAndIsTheNewest) {
  const TempDir dir;
  const auto store = OpenStore(dir);
  StoreWrites writes;
  StoredJob running;
  running.key = JobKey(5);
  running.summary.set_job("running");
  running.summary.set_state("ended");
  running.summary.set_first_seen_unix_ns(kImportedAt - 1);  // after all of the imported data
  writes.jobs[running.key] = running;
  ASSERT_TRUE(store->Apply(writes).ok());
  const JobBuilder builder = Stopped();
  std::vector<std::unique_ptr<ImportedJob>> jobs;
  jobs.push_back(std::make_unique<ImportedJob>(builder.job, Facts()));
  ASSERT_TRUE(SaveAll(jobs, store.get()).ok());
  EXPECT_EQ(store->ListJobs()->jobs(0).state(), "imported");
  EXPECT_EQ(store->LoadReport("")->job().job(), "imported-1");
  EXPECT_THAT(*store->UnfinishedJobs(), IsEmpty());
}

}  // namespace
}  // namespace flare::diag
