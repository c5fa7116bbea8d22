// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diag/detect/hang.h"
#include "tests/diag/detect/job_builder.h"

// Living ranks that wait: for one that is busy elsewhere, for each other, or for nothing we can
// see.
namespace flare::diag {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<Verdict> Detect(const JobBuilder& b) { return DetectHang(b.job, b.now()); }

Verdict Only(const JobBuilder& b) {
  const std::vector<Verdict> verdicts = Detect(b);
  EXPECT_EQ(verdicts.size(), 1u);
  return verdicts.empty() ? Verdict{} : verdicts[0];
}

// Rank 1 of 3 is held up for 4 s, the others wait for it.
JobBuilder WaitingForRank1() {
  JobBuilder b(3);
  for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kDefaultGroup, 3.9);
  b[1].NoProgressFor(4);
  return b;
}

struct Case {
  const char* name;
  const char* cause;
  const char* team;
  void (*hold)(RankBuilder rank);
  const char* text;  // part of the summary
};

class HangReasonTest : public testing::TestWithParam<Case> {};

TEST_P(HangReasonTest, NamesTheRankAndWhatHoldsItUp) {
  JobBuilder b = WaitingForRank1();
  GetParam().hold(b[1]);
  const Verdict v = Only(b);
  EXPECT_EQ(v.finding_class, "hang");
  EXPECT_EQ(v.cause, GetParam().cause);
  EXPECT_EQ(v.team, GetParam().team);
  EXPECT_FALSE(v.conclusive);
  EXPECT_THAT(v.ranks, ElementsAre(Rank(1)));
  EXPECT_THAT(v.victims, ElementsAre(Rank(0), Rank(2)));
  EXPECT_THAT(v.summary, HasSubstr(GetParam().text));
  EXPECT_EQ(v.open_after_unix_ns, SecondsAgo(3.9) + 60'000'000'000);
  EXPECT_EQ(v.since_unix_ns, SecondsAgo(3.9));
}

INSTANTIATE_TEST_SUITE_P(
    Table, HangReasonTest,
    testing::Values(
        Case{"EndlessLoop", "user_code_stuck", "algorithm",
             [](RankBuilder r) { r.RunState('R').Cpu(0.99).Frames({UserFrame()}); },
             "train_step (train.py:41)"},
        Case{"EndlessLoopOnACrowdedMachine", "user_code_stuck", "algorithm",
             [](RankBuilder r) { r.RunState('R').Cpu(0.12).Frames({UserFrame()}); },
             "train_step (train.py:41)"},
        Case{"Sleep", "user_code_stuck", "algorithm",
             [](RankBuilder r) { r.Syscall("clock_nanosleep").Cpu(0).Frames({UserFrame()}); },
             "clock_nanosleep"},
        Case{"PromptOfADebugger", "user_code_stuck", "algorithm",
             [](RankBuilder r) { r.Syscall("read", "/dev/pts/3").Cpu(0).Frames({UserFrame()}); },
             "/dev/pts/3"},
        Case{"FifoRead", "file_system_stall", "operations",
             [](RankBuilder r) {
               r.Syscall("read", "/tmp/x/shard.fifo").Cpu(0).Frames({UserFrame()});
             },
             "/tmp/x/shard.fifo"},
        Case{"FifoOpen", "file_system_stall", "operations",
             [](RankBuilder r) { r.Syscall("openat", "/tmp/x/shard.fifo").Cpu(0); }, "openat"},
        Case{"UninterruptibleSleep", "file_system_stall", "operations",
             [](RankBuilder r) { r.RunState('D').Cpu(0); }, "uninterruptible"},
        Case{"Lock", "lock_deadlock", "algorithm",
             [](RankBuilder r) { r.Syscall("futex").Cpu(0).Frames({UserFrame()}); }, "lock"},
        Case{"DataLoaderSpan", "data_loader_stall", "algorithm",
             [](RankBuilder r) { r.InCall(EventKind::kDataLoad, 4).Syscall("poll").Cpu(0); },
             "data loader"},
        Case{"DataLoaderFrames", "data_loader_stall", "algorithm",
             [](RankBuilder r) {
               r.Syscall("poll").Cpu(0).Frames(
                   {{"wait", "/usr/lib/python3.11/selectors.py", 415},
                    {"_try_get_data", "/x/dist-packages/torch/utils/data/dataloader.py", 1120},
                    UserFrame()});
             },
             "train_step"},
        Case{"CheckpointSpan", "checkpoint_io", "operations",
             [](RankBuilder r) { r.InCall(EventKind::kCheckpoint, 4).Syscall("write").Cpu(0); },
             "checkpoint"},
        Case{"CheckpointFrames", "checkpoint_io", "operations",
             [](RankBuilder r) {
               r.Syscall("write", "/ckpt/latest.pt")
                   .Cpu(0.1)
                   .Frames(
                       {{"_save", "/x/site-packages/torch/serialization.py", 800}, UserFrame()});
             },
             "/ckpt/latest.pt"},
        Case{"GarbageCollection", "python_gc", "algorithm",
             [](RankBuilder r) { r.InCall(EventKind::kGc, 4).RunState('R').Cpu(1); }, "garbage"},
        Case{"NothingSeen", "cause_not_found", "operations", [](RankBuilder) {}, "not seen"}),
    [](const auto& info) { return info.param.name; });

TEST(HangWaitingTest, SocketsAndPipesAreNotFiles) {
  for (const char* path : {"socket:[123]", "pipe:[77]", "anon_inode:[eventpoll]", "/dev/null"}) {
    JobBuilder b = WaitingForRank1();
    b[1].Syscall("read", path).Cpu(0);
    EXPECT_THAT(Only(b).cause, Not("file_system_stall")) << path;
  }
}

TEST(HangWaitingTest, WaitShorterThanTheStallTimeIsNotSuspicious) {
  JobBuilder b(3);
  for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kDefaultGroup, 1.8);
  b[1].NoProgressFor(1.9).Cpu(1).RunState('R').Frames({UserFrame()});
  EXPECT_THAT(Detect(b), IsEmpty());
}

TEST(HangWaitingTest, StallTimeGrowsWithTheSlowStepsOfTheJob) {
  JobBuilder b = WaitingForRank1();
  b[1].Cpu(1).Frames({UserFrame()});
  for (auto& [rank, record] : b.job.ranks) {
    for (RankStep& step : record.steps) step.duration_ns = 1'000'000'000;
  }
  EXPECT_THAT(Detect(b), IsEmpty());  // 5 x 1 s
}

TEST(HangWaitingTest, StartUpIsNotSuspicious) {
  JobBuilder b(3, 0);
  b[0].WaitsIn(kDefaultGroup, 50);
  b[1].NoProgressFor(55).Cpu(1).Frames({UserFrame()});
  b[2].NoProgressFor(55).Cpu(1).Frames({UserFrame()});
  EXPECT_THAT(Detect(b), IsEmpty());
}

TEST(HangWaitingTest, RankThatMakesProgressIsLeftAloneAtFirst) {
  JobBuilder b(3);  // rank 1 evaluates, batch after batch
  for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kDefaultGroup, 6);
  b[1].NoProgressFor(0.5).Cpu(1).Frames({UserFrame()});
  EXPECT_THAT(Detect(b), IsEmpty());
}

// Tokenising on one rank for half an hour: slow, not hung.
TEST(HangWaitingTest, RankThatMakesProgressForLongIsSlowNotHung) {
  JobBuilder b(3);
  for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kDefaultGroup, 1000);
  b[1].NoProgressFor(0.5).Cpu(1).Frames({UserFrame()});
  const Verdict v = Only(b);
  EXPECT_FALSE(v.conclusive);
  EXPECT_EQ(v.open_after_unix_ns, 0u);  // never opens
  EXPECT_THAT(v.summary, HasSubstr("slow but moving"));
}

TEST(HangWaitingTest, FollowsWaitsThroughOtherGroups) {
  constexpr CommId kPair{0xaa};
  JobBuilder b(4);
  b.Group(kPair, "pair", {2, 3});
  for (uint32_t r : {0u, 1u}) b[r].WaitsIn(kDefaultGroup, 3.9);
  b[2].WaitsIn(kPair, AllReduceOf(0, 8), 3.9);
  b[3].NoProgressFor(4).Cpu(1).Frames({UserFrame()});
  const Verdict v = Only(b);
  EXPECT_THAT(v.ranks, ElementsAre(Rank(3)));
  EXPECT_THAT(v.victims, ElementsAre(Rank(0), Rank(1), Rank(2)));
}

// 2 of 32 ranks are early: those behind are waited for, and among them the one that keeps the rest.
TEST(HangWaitingTest, EarlyMinorityIsNotBlamed) {
  constexpr CommId kRow{0xab};
  JobBuilder b(32);
  std::vector<uint32_t> row;
  for (uint32_t r = 0; r < 32; ++r) {
    if (r != 12 && r != 13) row.push_back(r);
  }
  b.Group(kRow, "row", row);
  for (uint32_t r : {12u, 13u}) b[r].WaitsIn(kDefaultGroup, 3.9);
  for (uint32_t r : row) {
    if (r != 5) b[r].WaitsIn(kRow, AllReduceOf(0, 8), 3.8);
  }
  b[5].NoProgressFor(4).Syscall("read", "/data/shard-7").Cpu(0);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "file_system_stall");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(5)));
  EXPECT_EQ(v.victims.size(), 31u);
}

// An asynchronous all-reduce of rank 1 is open, but what holds it up is its own loop.
TEST(HangWaitingTest, OpenAsynchronousCallDoesNotHideABusyMainThread) {
  constexpr CommId kOther{0xac};
  JobBuilder b(2);
  b.Group(kOther, "other", {0, 1});
  b[0].WaitsIn(kOther, AllReduceOf(0, 8), 3.8);
  b[1].Frames({UserFrame()}).WaitsIn(kDefaultGroup, 3.9).RunState('R').Cpu(1);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "user_code_stuck");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(1)));
}

TEST(HangWaitingTest, AllInsideOneCallBlamesNobody) {
  JobBuilder b(4);
  for (uint32_t r = 0; r < 4; ++r) b[r].WaitsIn(kDefaultGroup, 5);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "cause_not_found");
  EXPECT_THAT(v.ranks, IsEmpty());
  EXPECT_FALSE(v.conclusive);
  EXPECT_THAT(v.summary, HasSubstr("no rank is at fault"));
}

TEST(HangWaitingTest, MembersNeverHeardOfAreNotAccused) {
  JobBuilder b(3);
  for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kDefaultGroup, 5);
  b.job.ranks.erase(Rank(1));
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "cause_not_found");
  EXPECT_THAT(v.ranks, IsEmpty());
  EXPECT_THAT(v.summary, HasSubstr("1 rank of the job were never heard of"));
}

TEST(HangWaitingTest, SilentRankIsNotAccused) {
  JobBuilder b = WaitingForRank1();
  b[1].Cpu(1).Frames({UserFrame()}).LooksOld(30);
  EXPECT_THAT(Detect(b), IsEmpty());
}

TEST(HangWaitingTest, GroupCreationThatOneRankDoesNotJoin) {
  constexpr CommId kNew{0xad};
  JobBuilder b(3);
  for (uint32_t r : {0u, 2u}) {
    b[r].Joins(kNew, "new", r, 3).CreatesGroup(kNew, 4);
  }
  b[1].NoProgressFor(4).Cpu(1).Frames({UserFrame()});
  EXPECT_THAT(Only(b).ranks, ElementsAre(Rank(1)));
}

// ---- Cycles.

TEST(HangWaitingTest, EverySendBeforeReceiveIsACycle) {
  JobBuilder b(4);
  for (uint32_t r = 0; r < 4; ++r) b[r].Sends(kDefaultGroup, static_cast<int32_t>((r + 1) % 4), 9);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "collective_order_cycle");
  EXPECT_TRUE(v.conclusive);
  EXPECT_EQ(v.ranks.size(), 4u);
  EXPECT_THAT(v.summary, HasSubstr("no single one is at fault"));
}

TEST(HangWaitingTest, RingOfReceivesIsACycle) {
  JobBuilder b(4);
  for (uint32_t r = 0; r < 4; ++r) {
    b[r].Receives(kDefaultGroup, static_cast<int32_t>((r + 3) % 4), 9);
  }
  EXPECT_EQ(Only(b).cause, "collective_order_cycle");
}

TEST(HangWaitingTest, LargeExchangeIsNotACycleAtOnce) {
  JobBuilder b(2);
  for (uint32_t r = 0; r < 2; ++r) b[r].Receives(kDefaultGroup, 1 - static_cast<int32_t>(r), 4);
  EXPECT_FALSE(Only(b).conclusive);
}

TEST(HangWaitingTest, SendThatMeetsItsReceiveBlamesNobody) {
  JobBuilder b(2);
  b[0].Sends(kDefaultGroup, 1, 9);
  b[1].Receives(kDefaultGroup, 0, 9);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "cause_not_found");
  EXPECT_THAT(v.ranks, IsEmpty());
}

TEST(HangWaitingTest, CollectiveAgainstSendIsACycle) {
  JobBuilder b(2);
  b[0].WaitsIn(kDefaultGroup, 9);
  b[1].Receives(kDefaultGroup, 0, 9);
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "collective_order_cycle");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(0), Rank(1)));
}

TEST(HangWaitingTest, ReceiverOfASenderThatIsBusyNamesTheSender) {
  JobBuilder b(3);
  b[2].Receives(kDefaultGroup, 1, 4);
  b[1].Receives(kDefaultGroup, 0, 4);
  b[0].NoProgressFor(4).Syscall("futex").Cpu(0).Frames({UserFrame()});
  const Verdict v = Only(b);
  EXPECT_EQ(v.cause, "lock_deadlock");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(0)));
  EXPECT_THAT(v.victims, ElementsAre(Rank(1), Rank(2)));
}

TEST(HangWaitingTest, CycleSeenAtDifferentTimesIsNotCertain) {
  constexpr CommId kOther{0xae};
  JobBuilder b(2);
  b.Group(kOther, "other", {0, 1});
  b[0].WaitsIn(kDefaultGroup, 1.7);
  b[1].WaitsIn(kOther, AllReduceOf(0, 8), 4).LooksOld(1.5);  // before rank 0 came
  for (const Verdict& v : Detect(b)) EXPECT_FALSE(v.conclusive);
}

}  // namespace
}  // namespace flare::diag
