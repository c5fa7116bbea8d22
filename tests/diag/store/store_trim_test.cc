// SPDX-License-Identifier: Apache-2.0
// Store::Trim: what is kept and what goes.
#include <gtest/gtest.h>

#include <set>

#include "diag/store/store.h"
#include "tests/diag/store/store_values.h"
#include "tests/diag/store/temp_dir.h"

namespace flare::diag {
namespace {

constexpr uint64_t kDayNs = 86'400'000'000'000;
constexpr uint64_t kNoLimit = 1'000'000;

class StoreTrimTest : public testing::Test {
 protected:
  StoreTrimTest() : store_(std::move(*Store::Open(dir_ / "flare.db", OpenMode::kReadWrite))) {}

  void AddSteps(uint32_t rank, uint64_t first, uint64_t count, uint32_t attempt = 0) {
    StoreWrites writes;
    for (uint64_t s = first; s < first + count; ++s) {
      writes.steps.push_back(MakeStep(1, rank, s, attempt));
    }
    ASSERT_TRUE(store_->Apply(writes).ok());
  }

  void AddJob(const StoredJob& job) {
    StoreWrites writes;
    Add(&writes, job);
    ASSERT_TRUE(store_->Apply(writes).ok());
  }

  std::set<uint64_t> StepsOf(uint32_t rank) {
    std::set<uint64_t> out;
    const Result<JobMemory> memory = store_->LoadJob(JobKey(1), 100'000);
    for (const StoredStep& s : memory->steps) {
      if (s.rank == rank) out.insert(s.step);
    }
    return out;
  }

  TempDir dir_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTrimTest, NewestStepsOfEachRankStay) {
  AddJob(MakeJob(1, "job"));
  AddSteps(0, 0, 30);
  AddSteps(1, 0, 25);  // five behind
  EXPECT_EQ(*store_->Trim({.steps_per_rank = 10}, kNoLimit, 0), 20u + 15u);
  EXPECT_EQ(*StepsOf(0).begin(), 20u);
  EXPECT_EQ(StepsOf(0).size(), 10u);
  EXPECT_EQ(*StepsOf(1).begin(), 15u);
  EXPECT_EQ(StepsOf(1).size(), 10u);
  EXPECT_EQ(*store_->Trim({.steps_per_rank = 10}, kNoLimit, 0), 0u);
}

TEST_F(StoreTrimTest, RankThatStoppedLongAgoDoesNotKeepItsStepsForEver) {
  AddJob(MakeJob(1, "job"));
  AddSteps(0, 0, 100);
  AddSteps(1, 0, 5);
  ASSERT_TRUE(store_->Trim({.steps_per_rank = 10}, kNoLimit, 0).ok());
  EXPECT_TRUE(StepsOf(1).empty());
}

TEST_F(StoreTrimTest, LimitBoundsOneCall) {
  AddJob(MakeJob(1, "job"));
  AddSteps(0, 0, 100);
  EXPECT_EQ(*store_->Trim({.steps_per_rank = 10}, 25, 0), 25u);
  uint64_t removed = 25;
  while (const uint64_t n = *store_->Trim({.steps_per_rank = 10}, 25, 0)) removed += n;
  EXPECT_EQ(removed, 90u);
  EXPECT_EQ(*StepsOf(0).begin(), 90u);
}

TEST_F(StoreTrimTest, AttemptsBeforeTheLastGo) {
  for (uint32_t attempt = 0; attempt < 3; ++attempt) AddSteps(0, 0, 10, attempt);
  AddJob(MakeJob(1, "job", 2));
  EXPECT_EQ(*store_->Trim({.steps_per_rank = 100}, kNoLimit, 0), 10u);
  EXPECT_EQ(*store_->CountSteps(), 20u);
}

TEST_F(StoreTrimTest, LongEndedJobKeepsItsReportOnly) {
  StoredJob job = MakeJob(1, "job");
  job.summary.set_state("ended");
  job.ended_unix_ns = 5 * kDayNs;
  AddJob(job);
  AddSteps(0, 0, 10);
  EXPECT_EQ(*store_->Trim({.ended_job_days = 30}, kNoLimit, 34 * kDayNs), 0u);
  EXPECT_EQ(*store_->Trim({.ended_job_days = 30}, kNoLimit, 35 * kDayNs), 10u);
  EXPECT_TRUE(store_->LoadReport("job").ok());
}

}  // namespace
}  // namespace flare::diag
