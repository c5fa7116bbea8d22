// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diag/detect/hang.h"
#include "tests/diag/detect/job_builder.h"

// Processes that are stopped, dead or gone.
namespace flare::diag {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kPeerLost[] =
    "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]";

std::vector<Verdict> Detect(const JobBuilder& b) { return DetectHang(b.job, b.now()); }

#define EXPECT_VERDICT(verdicts, cls, id, ...) \
  ASSERT_EQ(verdicts.size(), 1u);              \
  EXPECT_EQ(verdicts[0].finding_class, cls);   \
  EXPECT_EQ(verdicts[0].cause, id);            \
  EXPECT_THAT(verdicts[0].ranks, ElementsAre(__VA_ARGS__))

TEST(HangProcessTest, StoppedRankIsNamedWithWaiters) {
  JobBuilder b(4);
  b[2].StoppedFor(4);
  for (uint32_t r : {0u, 1u, 3u}) b[r].WaitsIn(kDefaultGroup, 3.9);
  const auto verdicts = Detect(b);
  EXPECT_VERDICT(verdicts, "hang", "process_stopped", Rank(2));
  EXPECT_TRUE(verdicts[0].conclusive);
  EXPECT_EQ(verdicts[0].team, "operations");
  EXPECT_THAT(verdicts[0].victims, ElementsAre(Rank(0), Rank(1), Rank(3)));
  EXPECT_THAT(verdicts[0].nodes, ElementsAre("a"));
  EXPECT_EQ(verdicts[0].summary,
            "Rank 2 on node a is stopped (SIGSTOP or job control); 3 ranks have waited for it in "
            "all-reduce #240 of group default_pg for 3.9 s.");
}

TEST(HangProcessTest, StoppedForAMomentOnlyIsNotReported) {
  JobBuilder b(2);
  b[1].StoppedFor(0.4);
  EXPECT_THAT(Detect(b), IsEmpty());
}

TEST(HangProcessTest, SuspendedJobIsNotReported) {
  JobBuilder b(2);
  b[0].StoppedFor(4);
  b[1].StoppedFor(4);
  EXPECT_THAT(Detect(b), IsEmpty());
}

TEST(HangProcessTest, OtherRankSeenBeforeTheStopOnlyIsNoWitness) {
  JobBuilder b(2);
  b[1].StoppedFor(4);
  b[0].LooksOld(4.5);  // it may be stopped too by now
  EXPECT_THAT(Detect(b), IsEmpty());
}

TEST(HangProcessTest, DebuggedRankIsNamedAsSuch) {
  JobBuilder b(2);
  b[1].StoppedFor(4).RunState('t');
  const auto verdicts = Detect(b);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_THAT(verdicts[0].summary, HasSubstr("held by a debugger"));
}

TEST(HangProcessTest, KilledRankOfAJobThatStaysIsAHang) {
  JobBuilder b(4);
  b[3].Died(2);
  for (uint32_t r : {0u, 1u, 2u}) b[r].WaitsIn(kDefaultGroup, 1.9);
  const auto verdicts = Detect(b);
  EXPECT_VERDICT(verdicts, "hang", "process_crashed", Rank(3));
  EXPECT_TRUE(verdicts[0].conclusive);
  EXPECT_THAT(verdicts[0].victims, ElementsAre(Rank(0), Rank(1), Rank(2)));
}

TEST(HangProcessTest, DeathIsLeftToSettle) {
  JobBuilder b(2);
  b[1].Died(1);
  EXPECT_THAT(Detect(b), IsEmpty());
}

TEST(HangProcessTest, KilledRankWhosePeersRaiseIsTheCulpritOfAnError) {
  JobBuilder b(3);
  b[1].Died(2);
  for (uint32_t r : {0u, 2u}) b[r].Exited(1, 1.95).Raised("RuntimeError", kPeerLost);
  const auto verdicts = Detect(b);
  EXPECT_VERDICT(verdicts, "error", "process_crashed", Rank(1));
  EXPECT_THAT(verdicts[0].victims, ElementsAre(Rank(0), Rank(2)));
}

TEST(HangProcessTest, LauncherThatKillsTheRestDoesNotHideTheFirstDeath) {
  JobBuilder b(3);
  b[1].Died(3);
  b[0].Died(2.5).Raised("RuntimeError", kPeerLost);
  b[2].Died(2.5);
  const auto verdicts = Detect(b);
  EXPECT_VERDICT(verdicts, "error", "process_crashed", Rank(1));
}

TEST(HangProcessTest, PeersAboutToEndAreNotAHang) {
  JobBuilder b(2);
  b[1].Died(2);
  b[0].Raised("RuntimeError", kPeerLost);  // prints its traceback
  const auto verdicts = Detect(b);
  EXPECT_VERDICT(verdicts, "error", "process_crashed", Rank(1));
}

TEST(HangProcessTest, CancelledJobIsNotReported) {
  JobBuilder b(4);
  for (uint32_t r = 0; r < 4; ++r) b[r].Died(2 + 0.02 * r);
  EXPECT_THAT(Detect(b), IsEmpty());
  b.job.ended = true;
  EXPECT_THAT(Detect(b), IsEmpty());
}

TEST(HangProcessTest, InterruptedJobIsNotReported) {
  JobBuilder b(2);
  b[0].Exited(1, 3).Raised("KeyboardInterrupt", "");
  b[1].Died(2);
  EXPECT_THAT(Detect(b), IsEmpty());
}

TEST(HangProcessTest, RaisingRankAndItsLauncherAreNotReported) {
  JobBuilder b(3);
  b[1].Exited(1, 3).Raised("ValueError", "loss is not finite");
  b[0].Exited(1, 2.9).Raised("RuntimeError", kPeerLost);
  b[2].Died(2.5);
  EXPECT_THAT(Detect(b), IsEmpty());
  b.job.ended = true;
  EXPECT_THAT(Detect(b), IsEmpty());
}

TEST(HangProcessTest, RaisingRankThatLeavesOthersBehindIsReported) {
  JobBuilder b(3);
  b[1].Exited(1, 8).Raised("ValueError", "loss is not finite");
  for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kDefaultGroup, 7.9);
  const auto verdicts = Detect(b);
  EXPECT_VERDICT(verdicts, "hang", "process_exited", Rank(1));
  EXPECT_THAT(verdicts[0].summary, HasSubstr("ValueError"));
}

TEST(HangProcessTest, NormalExitIsNotReported) {
  JobBuilder b(4);
  b[0].Exited(0, 6);
  b[1].Exited(0, 4);
  b[2].Exited(0, 1);  // the last still tears down
  EXPECT_THAT(Detect(b), IsEmpty());
  b.job.ended = true;
  b[3].Exited(0, 0.1);
  EXPECT_THAT(Detect(b), IsEmpty());
}

TEST(HangProcessTest, DeathAfterTheWorkIsNotReported) {
  JobBuilder b(2);
  b[0].Exited(0, 5);
  b[1].Died(4);  // in the destructors of some library
  EXPECT_THAT(Detect(b), IsEmpty());
}

TEST(HangProcessTest, EarlyExitThatOthersNeedIsReported) {
  JobBuilder b(3);
  b[1].Exited(0, 5);
  for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kDefaultGroup, 4.9);
  const auto verdicts = Detect(b);
  EXPECT_VERDICT(verdicts, "hang", "process_exited", Rank(1));
  EXPECT_TRUE(verdicts[0].conclusive);
}

TEST(HangProcessTest, RankWithFewerStepsRanOutOfData) {
  JobBuilder b(3);
  b[1].Exited(0, 5).Steps(59);
  for (uint32_t r : {0u, 2u}) b[r].WaitsIn(kDefaultGroup, 4.9);
  const auto verdicts = Detect(b);
  EXPECT_VERDICT(verdicts, "hang", "collective_skipped", Rank(1));
  EXPECT_THAT(verdicts[0].summary, HasSubstr("data ran out"));
}

TEST(HangProcessTest, EarlyExitThatBreaksTheConnectionsOfOthersIsReported) {
  JobBuilder b(2);
  b[1].Exited(0, 5);
  b[0].WaitsIn(kDefaultGroup, 4.9).Exited(1, 4.8).Raised("RuntimeError", kPeerLost);
  const auto verdicts = Detect(b);
  EXPECT_VERDICT(verdicts, "error", "process_exited", Rank(1));
}

TEST(HangProcessTest, SilenceOfADaemonIsNotADeath) {
  JobBuilder b(3);
  for (uint32_t r = 0; r < 3; ++r) b[r].WaitsIn(kDefaultGroup, 40).LooksOld(30);
  EXPECT_THAT(Detect(b), IsEmpty());
}

}  // namespace
}  // namespace flare::diag
