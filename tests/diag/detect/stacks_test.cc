// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/stacks.h"

#include <gmock/gmock.h>

namespace flare::diag {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kNow = 1'800'000'000'000'000'000;

using Stack = std::vector<StackFrame>;

Stack Collective(const char* operation, const char* caller) {
  return {{operation, "torch/distributed/distributed_c10d.py", 1316},
          {caller, "train.py", 41},
          {"<module>", "train.py", 90}};
}

Stack DataLoader() {
  return {{"Condition.wait", "threading.py", 306},
          {"_MultiProcessingDataLoaderIter._next_data", "torch/utils/data/dataloader.py", 1207},
          {"train", "train.py", 30},
          {"<module>", "train.py", 90}};
}

Stack OwnCode(uint32_t line) { return {{"step", "train.py", line}, {"<module>", "train.py", 90}}; }

Stack DeviceWait() {
  return {{"synchronize", "/x/site-packages/torch/cuda/__init__.py", 892},
          {"train", "train.py", 55}};
}

class StacksTest : public testing::Test {
 protected:
  void Add(size_t count, const Stack& stack) {
    for (size_t i = 0; i < count; ++i) {
      const Rank rank(static_cast<uint32_t>(job_.ranks.size()));
      RankRecord& record = job_.ranks[rank];
      record.rank = rank;
      record.pid = 1000 + rank.value;
      record.state.process.life = Life::kRunning;
      record.state.process.threads = {{1000u + rank.value, "MainThread", "active", stack}};
    }
  }
  std::vector<Verdict> Detect() const { return DetectStacks(job_, kNow); }

  Job job_;
};

TEST_F(StacksTest, ProcessBlockedInItsDataLoaderIsNamed) {
  Add(7, Collective("all_reduce", "backward"));
  Add(1, DataLoader());
  const auto verdicts = Detect();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].cause, "data_loader_stall");
  EXPECT_EQ(verdicts[0].team, "algorithm");
  EXPECT_THAT(verdicts[0].ranks, ElementsAre(Rank(7)));
  EXPECT_EQ(verdicts[0].victims.size(), 7u);
  EXPECT_FALSE(verdicts[0].conclusive);
  EXPECT_EQ(verdicts[0].open_after_unix_ns, 0u);
  EXPECT_EQ(verdicts[0].summary,
            "Rank 7 (process 1007) waits for its data loader at train (train.py:30) while 7 of 8 "
            "processes wait in communication, at the moment of the dump.");
  EXPECT_THAT(verdicts[0].action, HasSubstr("A second dump"));
}

TEST_F(StacksTest, OneOfTwoIsNamedWithLessConfidence) {
  Add(1, Collective("all_reduce", "backward"));
  Add(1, DataLoader());
  const auto verdicts = Detect();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_THAT(verdicts[0].ranks, ElementsAre(Rank(1)));
  EXPECT_LT(verdicts[0].confidence, 0.5);
}

TEST_F(StacksTest, ManyThatLoadDataAreOrdinary) {
  Add(3, Collective("all_reduce", "backward"));
  Add(5, DataLoader());
  EXPECT_THAT(Detect(), IsEmpty());
}

TEST_F(StacksTest, BlockedProcessAmongComputingOnesIsOrdinary) {
  Add(2, Collective("all_reduce", "backward"));
  Add(5, OwnCode(50));
  Add(1, DataLoader());
  EXPECT_THAT(Detect(), IsEmpty());
}

TEST_F(StacksTest, AllInOneCollectiveAreHealthyOrWaitForTheNetwork) {
  Add(8, Collective("all_reduce", "backward"));
  EXPECT_THAT(Detect(), IsEmpty());
}

TEST_F(StacksTest, MiddleOfAStepIsSilent) {
  Add(5, OwnCode(50));
  Add(1, OwnCode(51));
  Add(1, Collective("all_reduce", "backward"));
  Add(1, DeviceWait());
  EXPECT_THAT(Detect(), IsEmpty());
}

TEST_F(StacksTest, LateOneOfManyIsNamedAsBeingInItsOwnCode) {
  Add(7, Collective("all_reduce", "backward"));
  Add(1, OwnCode(77));
  const auto verdicts = Detect();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].cause, "user_code_stuck");
  EXPECT_THAT(verdicts[0].ranks, ElementsAre(Rank(7)));
  EXPECT_LE(verdicts[0].confidence, 0.4);
}

TEST_F(StacksTest, StageThatComputesWhileOthersReceiveIsAPipeline) {
  Add(7, Collective("recv", "recv_forward"));
  Add(1, OwnCode(77));
  EXPECT_THAT(Detect(), IsEmpty());
}

TEST_F(StacksTest, DifferentCollectivesAreSaidAndNobodyBlamed) {
  Add(6, Collective("all_reduce", "train"));
  Add(2, Collective("broadcast", "aggregate_loss"));
  const auto verdicts = Detect();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].cause, "cause_not_found");
  EXPECT_THAT(verdicts[0].ranks, IsEmpty());
  EXPECT_EQ(verdicts[0].victims.size(), 8u);
  ASSERT_EQ(verdicts[0].evidence.size(), 2u);
  EXPECT_EQ(verdicts[0].evidence[0].text,
            "Ranks 0-5 wait in all_reduce, called from train (train.py:41) (stack dump)");
  EXPECT_THAT(verdicts[0].evidence[1].text, HasSubstr("Ranks 6 and 7 wait in broadcast"));
}

TEST_F(StacksTest, LaunchersAndDataWorkersAreNoRanks) {
  Add(4, Collective("all_reduce", "backward"));
  Add(1,
      {{"SimpleElasticAgent._invoke_run", "/x/torch/distributed/elastic/agent/server/api.py", 850},
       {"<module>", "torchrun", 8}});
  Add(8, {{"_fetch", "torch/utils/data/_utils/fetch.py", 50},
          {"_worker_loop", "torch/utils/data/_utils/worker.py", 300},
          {"<module>", "train.py", 90}});
  EXPECT_THAT(Detect(), IsEmpty());
}

TEST_F(StacksTest, KnownCallsAreLeftToTheDetectorOfHangs) {
  Add(7, Collective("all_reduce", "backward"));
  Add(1, DataLoader());
  job_.ranks.at(Rank(0)).state.open_calls.emplace_back();
  EXPECT_THAT(Detect(), IsEmpty());
}

TEST_F(StacksTest, DeadProcessesHoldNobodyUpBySleeping) {
  Add(7, Collective("all_reduce", "backward"));
  Add(1, DataLoader());
  job_.ranks.at(Rank(7)).state.process.life = Life::kDied;
  EXPECT_THAT(Detect(), IsEmpty());
}

TEST_F(StacksTest, NativeStacksTellTheSame) {
  const Stack waits = {{"pthread_cond_wait", "/lib/libc.so.6", 0},
                       {"c10d::ProcessGroupNCCL::WorkNCCL::wait(long)", "/x/libtorch_cuda.so", 0},
                       {"main", "", 0}};
  Add(3, waits);
  Add(1, {{"read", "/lib/libc.so.6", 0}, {"gc_collect_main", "Modules/gcmodule.c", 1200}});
  const auto verdicts = Detect();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].cause, "python_gc");
  EXPECT_THAT(verdicts[0].ranks, ElementsAre(Rank(3)));
}

}  // namespace
}  // namespace flare::diag
