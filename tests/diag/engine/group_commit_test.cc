// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/group_commit.h"

#include <gtest/gtest.h>

#include <future>

#include "tests/diag/store/store_values.h"
#include "tests/diag/store/temp_dir.h"

namespace flare::diag {
namespace {

class GroupCommitTest : public testing::Test {
 protected:
  std::string path() const { return dir_ / "flare.db"; }
  std::unique_ptr<Store> Open(OpenMode mode) { return std::move(*Store::Open(path(), mode)); }
  std::unique_ptr<GroupCommit> Start(uint32_t interval_ms) {
    return std::make_unique<GroupCommit>(Open(OpenMode::kReadWrite), interval_ms, Retention());
  }
  static StoreWrites OneStep(uint64_t step) {
    StoreWrites writes;
    writes.steps.push_back(MakeStep(1, 0, step));
    return writes;
  }

  TempDir dir_;
};

TEST_F(GroupCommitTest, WaiterIsToldWhenItsWritesAreOnDisk) {
  const std::unique_ptr<GroupCommit> commit = Start(1);
  const std::unique_ptr<Store> reader = Open(OpenMode::kReadOnly);
  for (uint64_t s = 0; s < 20; ++s) {
    std::promise<uint64_t> stored;
    commit->Add(OneStep(s), [&] { stored.set_value(*reader->CountSteps()); });
    ASSERT_EQ(stored.get_future().get(), s + 1);
  }
}

TEST_F(GroupCommitTest, WhatComesTogetherSharesACommit) {
  const std::unique_ptr<GroupCommit> commit = Start(50);
  std::promise<void> last;
  for (uint64_t s = 0; s < 1000; ++s) {
    commit->Add(OneStep(s), [&, s] {
      if (s == 999) last.set_value();
    });
  }
  last.get_future().wait();
  EXPECT_EQ(commit->counters().steps_stored, 1000u);
  EXPECT_LT(commit->counters().commits, 500u);
}

TEST_F(GroupCommitTest, StopCommitsWhatWaits) {
  const std::unique_ptr<GroupCommit> commit = Start(60'000);
  for (uint64_t s = 0; s < 10; ++s) commit->Add(OneStep(s));
  commit->Stop();
  EXPECT_EQ(*Open(OpenMode::kReadOnly)->CountSteps(), 10u);
}

TEST_F(GroupCommitTest, FailedCommitIsTriedAgainAndNobodyIsToldBefore) {
  const std::unique_ptr<GroupCommit> commit = Start(1);
  const std::unique_ptr<Database> other = std::move(*Database::Open(path(), OpenMode::kReadWrite));
  ASSERT_TRUE(other->Execute("ALTER TABLE steps RENAME TO elsewhere").ok());
  std::promise<void> told;
  std::future<void> telling = told.get_future();
  commit->Add(OneStep(1), [&] { told.set_value(); });
  while (commit->counters().failed_commits == 0) std::this_thread::yield();
  EXPECT_EQ(telling.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  ASSERT_TRUE(other->Execute("ALTER TABLE elsewhere RENAME TO steps").ok());
  commit->Add(OneStep(2));
  telling.wait();
  commit->Stop();
  EXPECT_EQ(*Open(OpenMode::kReadOnly)->CountSteps(), 2u);
}

TEST(MergeWritesTest, LaterValuesStay) {
  StoreWrites into;
  Add(&into, MakeJob(1, "old"));
  Add(&into, MakeJob(2, "kept"));
  into.daemons["d"] = {"node", 9, 1};
  StoreWrites from;
  Add(&from, MakeJob(1, "new"));
  from.daemons["d"] = {"node", 7, 2};
  MergeWrites(std::move(from), &into);
  EXPECT_EQ(into.jobs.at(JobKey(1)).summary.job(), "new");
  EXPECT_EQ(into.jobs.at(JobKey(2)).summary.job(), "kept");
  EXPECT_EQ(into.daemons.at("d").last_sequence, 9u);
  EXPECT_EQ(into.daemons.at("d").last_seen_unix_ns, 2u);
}

}  // namespace
}  // namespace flare::diag
