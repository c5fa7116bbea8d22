// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/finding_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diag/detect/causes.h"
#include "tests/diag/detect/job_builder.h"

namespace flare::diag {
namespace {

using testing::ElementsAre;

constexpr uint64_t kSecond = 1'000'000'000;

// Time passes for a job of 4 ranks that is heard of all the while.
class FindingTrackerTest : public testing::Test {
 protected:
  FindingTrackerTest() : builder_(4), tracker_("job") {}

  bool See(double second, const std::vector<Verdict>& verdicts) {
    now_ = kTestNow + static_cast<uint64_t>(second * 1e9);
    for (auto& [rank, record] : builder_.job.ranks) record.state.at_unix_ns = now_;
    return tracker_.Update(builder_.job, verdicts, now_);
  }
  const Finding& finding(size_t i = 0) const { return tracker_.findings().at(i); }
  size_t count() const { return tracker_.findings().size(); }
  bool End(int32_t status) {
    builder_.job.ended = true;
    builder_.job.exit_status = status;
    return tracker_.EndJob(builder_.job, now_);
  }

  static Verdict Of(const char* cause, std::vector<uint32_t> ranks, bool conclusive,
                    double since_s = 0, const char* finding_class = "hang") {
    Verdict verdict = MakeVerdict(finding_class, cause);
    for (uint32_t r : ranks) verdict.ranks.push_back(Rank(r));
    verdict.conclusive = conclusive;
    verdict.since_unix_ns = kTestNow + static_cast<uint64_t>(since_s * 1e9);
    if (!conclusive) verdict.open_after_unix_ns = verdict.since_unix_ns + 60 * kSecond;
    return verdict;
  }

  JobBuilder builder_;
  FindingTracker tracker_;
  uint64_t now_ = kTestNow;
};

TEST_F(FindingTrackerTest, ConclusiveVerdictOpensAtOnce) {
  EXPECT_TRUE(See(2, {Of("process_stopped", {1}, true)}));
  ASSERT_EQ(count(), 1u);
  EXPECT_EQ(finding().state, FindingState::kOpen);
  EXPECT_EQ(finding().id, "job-1");
  EXPECT_EQ(finding().job, "job");
}

TEST_F(FindingTrackerTest, TroublesOfTwoNodesWithoutRanksStayApart) {
  Verdict a = Of("gpu_xid", {}, true, 0, "error"), b = a;
  a.nodes = {"a"};
  b.nodes = {"b"};
  See(1, {a, b});
  EXPECT_FALSE(See(2, {a, b}));
  ASSERT_EQ(count(), 2u);
  EXPECT_THAT(finding(0).verdict.nodes, ElementsAre("a"));
  EXPECT_THAT(finding(1).verdict.nodes, ElementsAre("b"));
}

TEST_F(FindingTrackerTest, SuspicionOpensWhenItsTimeHasCome) {
  See(3, {Of("user_code_stuck", {1}, false)});
  EXPECT_EQ(finding().state, FindingState::kSuspected);
  See(59, {Of("user_code_stuck", {1}, false)});
  EXPECT_EQ(finding().state, FindingState::kSuspected);
  EXPECT_TRUE(See(60, {Of("user_code_stuck", {1}, false)}));
  EXPECT_EQ(finding().state, FindingState::kOpen);
  EXPECT_EQ(count(), 1u);
}

TEST_F(FindingTrackerTest, SuspicionIsWithdrawnWhenProgressReturns) {
  See(3, {Of("user_code_stuck", {1}, false)});
  EXPECT_FALSE(See(4, {}));
  EXPECT_TRUE(See(5.5, {}));
  EXPECT_EQ(finding().state, FindingState::kWithdrawn);
}

TEST_F(FindingTrackerTest, OpenFindingResolvesAfterAWhile) {
  See(2, {Of("process_stopped", {1}, true)});
  See(4, {});
  See(8, {});
  EXPECT_EQ(finding().state, FindingState::kOpen);
  EXPECT_TRUE(See(9.5, {}));
  EXPECT_EQ(finding().state, FindingState::kResolved);
}

TEST_F(FindingTrackerTest, ReturnWithinAMinuteIsTheSameFinding) {
  See(2, {Of("process_stopped", {1}, true)});
  See(4, {});
  See(10, {});
  EXPECT_EQ(finding().state, FindingState::kResolved);
  EXPECT_TRUE(See(40, {Of("process_stopped", {1}, true, 38)}));
  EXPECT_EQ(count(), 1u);
  EXPECT_EQ(finding().state, FindingState::kOpen);
}

TEST_F(FindingTrackerTest, ReturnAfterLongIsANewFinding) {
  See(2, {Of("process_stopped", {1}, true)});
  See(4, {});
  See(10, {});
  See(80, {Of("process_stopped", {1}, true, 78)});
  EXPECT_EQ(count(), 2u);
}

TEST_F(FindingTrackerTest, AnotherSuspicionAfterProgressIsANewFinding) {
  See(3, {Of("user_code_stuck", {1}, false)});
  See(4, {});
  See(6, {});
  See(20, {Of("checkpoint_io", {0}, false, 17)});
  EXPECT_EQ(count(), 2u);
  EXPECT_EQ(finding(0).state, FindingState::kWithdrawn);
}

TEST_F(FindingTrackerTest, BetterEvidenceRewritesTheFinding) {
  See(3, {Of("cause_not_found", {}, false)});
  See(4, {Of("user_code_stuck", {1}, false)});
  See(5, {Of("collective_skipped", {2}, true)});
  ASSERT_EQ(count(), 1u);
  EXPECT_EQ(finding().verdict.cause, "collective_skipped");
  EXPECT_THAT(finding().verdict.ranks, ElementsAre(Rank(2)));
  EXPECT_EQ(finding().state, FindingState::kOpen);
}

// gloo kills the receiver of a wrong size: its death explains nothing.
TEST_F(FindingTrackerTest, WeakerEvidenceDoesNotReplaceStronger) {
  See(3, {Of("collective_mismatch", {1}, true)});
  See(5, {Of("process_crashed", {0}, true, 3)});
  See(6, {Of("user_code_stuck", {3}, false, 3)});
  ASSERT_EQ(count(), 1u);
  EXPECT_EQ(finding().verdict.cause, "collective_mismatch");
  EXPECT_THAT(finding().verdict.ranks, ElementsAre(Rank(1)));
}

// A launcher that is told to end kills the ranks that can be killed; the stopped one stays.
TEST_F(FindingTrackerTest, DeathsThatEndAHungJobDoNotExplainIt) {
  See(2, {Of("process_stopped", {1}, true)});
  See(8, {Of("process_crashed", {0}, true, 7, "error")});
  ASSERT_EQ(count(), 1u);
  EXPECT_EQ(finding().verdict.cause, "process_stopped");
  EXPECT_THAT(finding().verdict.ranks, ElementsAre(Rank(1)));
}

TEST_F(FindingTrackerTest, HangBecomesTheErrorThatEndsTheJob) {
  See(2, {Of("process_crashed", {1}, true)});
  EXPECT_TRUE(See(4, {Of("process_crashed", {1}, true, 0, "error")}));
  ASSERT_EQ(count(), 1u);
  EXPECT_EQ(finding().verdict.finding_class, "error");
}

TEST_F(FindingTrackerTest, HangAndSlowRankAreTwoFindings) {
  See(2, {Of("process_stopped", {1}, true), Of("compute_slow", {1}, true, 0, "fail_slow")});
  EXPECT_EQ(count(), 2u);
}

TEST_F(FindingTrackerTest, TwoSlowRanksAreTwoFindings) {
  See(2, {Of("compute_slow", {1}, true, 0, "fail_slow")});
  See(3, {Of("compute_slow", {2}, true, 0, "fail_slow")});
  EXPECT_EQ(count(), 2u);
}

TEST_F(FindingTrackerTest, SilenceEndsNothing) {
  See(2, {Of("process_stopped", {1}, true)});
  for (double s = 20; s < 200; s += 1) {
    tracker_.Update(builder_.job, {}, kTestNow + static_cast<uint64_t>(s * 1e9));
  }
  EXPECT_EQ(finding().state, FindingState::kOpen);
}

TEST_F(FindingTrackerTest, SameNewsIsNotToldAtEveryLook) {
  int told = 0;
  for (double s = 2; s < 12; s += 0.5) told += See(s, {Of("process_stopped", {1}, true)});
  EXPECT_EQ(told, 2);  // new, and newer numbers after 5 s
}

TEST_F(FindingTrackerTest, CountsTheTimeOfAllRanks) {
  See(1800, {Of("process_stopped", {1}, true)});
  EXPECT_NEAR(finding().gpu_hours_lost, 2.0, 1e-9);  // 4 ranks, half an hour
  See(3600, {Of("process_stopped", {1}, true)});
  EXPECT_NEAR(finding().gpu_hours_lost, 4.0, 1e-9);
}

TEST_F(FindingTrackerTest, SlowRankCostsItsShareOnly) {
  Verdict slow = Of("compute_slow", {1}, true, 0, "fail_slow");
  slow.lost_share = 0.25;
  See(3600, {slow});
  EXPECT_NEAR(finding().gpu_hours_lost, 1.0, 1e-9);
}

// Its onset moves on because few steps are kept; its patience does not.
TEST_F(FindingTrackerTest, SlowRankOpensInTimeAlthoughItsOnsetMoves) {
  for (double s = 10; s <= 65; s += 0.5) {
    Verdict slow = Of("cpu_contention", {1}, false, s - 10, "fail_slow");
    slow.open_after_unix_ns = slow.since_unix_ns + 60 * kSecond;
    if (s == 30) slow.open_after_unix_ns = 0;  // a look with weaker numbers
    See(s, {slow});
    EXPECT_EQ(finding().state, s < 60 ? FindingState::kSuspected : FindingState::kOpen) << s;
  }
}

TEST_F(FindingTrackerTest, SlownessThatComesAgainMustLastAgain) {
  Verdict slow = Of("cpu_contention", {1}, false, 0, "fail_slow");
  slow.open_after_unix_ns = kTestNow + 60 * kSecond;
  See(3, {slow});
  for (double s = 4; s < 55; s += 1) See(s, {});
  slow.open_after_unix_ns = kTestNow + 110 * kSecond;
  for (double s = 55; s < 109; s += 1) See(s, {slow});
  ASSERT_EQ(count(), 1u);
  EXPECT_EQ(finding().state, FindingState::kSuspected);
}

// Open since it waits for its CPU; that it computes longer was never proven.
TEST_F(FindingTrackerTest, OpenSlownessDoesNotPassToACauseThatIsOnlySuspected) {
  Verdict slow = Of("cpu_contention", {1}, false, 0, "fail_slow");
  slow.open_after_unix_ns = kTestNow + 60 * kSecond;
  See(3, {slow});
  See(61, {slow});
  Verdict other = Of("compute_slow", {1}, false, 0, "fail_slow");
  other.open_after_unix_ns = 0;
  See(62, {other});
  EXPECT_EQ(finding().state, FindingState::kOpen);
  EXPECT_EQ(finding().verdict.cause, "cpu_contention");
  See(63, {Of("compute_slow", {1}, true, 0, "fail_slow")});
  EXPECT_EQ(finding().verdict.cause, "compute_slow");
}

TEST_F(FindingTrackerTest, EndOfAJobResolvesWhatIsOpen) {
  See(2, {Of("process_stopped", {1}, true)});
  EXPECT_FALSE(finding().until_job_end);
  EXPECT_TRUE(End(1));
  EXPECT_EQ(finding().state, FindingState::kResolved);
  EXPECT_TRUE(finding().until_job_end);
}

TEST_F(FindingTrackerTest, JobThatEndsWellRefutesASuspicion) {
  See(3, {Of("user_code_stuck", {1}, false)});
  EXPECT_TRUE(End(0));
  EXPECT_EQ(finding().state, FindingState::kWithdrawn);
}

TEST_F(FindingTrackerTest, JobThatIsKilledLeavesASuspicionAsItIs) {
  See(3, {Of("user_code_stuck", {1}, false)});
  EXPECT_FALSE(End(137));
  EXPECT_EQ(finding().state, FindingState::kSuspected);
}

TEST_F(FindingTrackerTest, RestoredFindingsGoOn) {
  See(2, {Of("process_stopped", {1}, true)});
  FindingTracker next("job");
  next.Restore(tracker_.findings());
  next.Update(builder_.job, {Of("process_stopped", {1}, true)}, now_ + kSecond);
  ASSERT_EQ(next.findings().size(), 1u);
  next.Update(builder_.job,
              {Of("process_stopped", {1}, true), Of("compute_slow", {3}, true, 0, "fail_slow")},
              now_ + 2 * kSecond);
  ASSERT_EQ(next.findings().size(), 2u);
  EXPECT_EQ(next.findings()[1].id, "job-2");
}

TEST_F(FindingTrackerTest, KeepsABoundedNumberAndDropsEndedOnesFirst) {
  See(0, {Of("process_stopped", {3}, true)});
  for (size_t i = 1; i <= FindingTracker::kKeptFindings + 50; ++i) {
    const double s = 200.0 * static_cast<double>(i);
    const Verdict slow = Of("compute_slow", {1}, true, s, "fail_slow");
    See(s, {Of("process_stopped", {3}, true), slow});
    See(s + 1, {Of("process_stopped", {3}, true)});
    See(s + 10, {Of("process_stopped", {3}, true)});
  }
  EXPECT_EQ(count(), FindingTracker::kKeptFindings);
  EXPECT_EQ(finding(0).verdict.cause, "process_stopped");
}

}  // namespace
}  // namespace flare::diag
