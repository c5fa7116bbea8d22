// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/live_job.h"

#include <gtest/gtest.h>

namespace flare::diag {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kStart = 1'800'000'000 * kSecond;

v1::RankHello MakeHello(uint64_t source, uint32_t rank, uint32_t attempt = 0,
                        uint64_t started = kStart) {
  v1::RankHello hello;
  hello.set_source(source);
  hello.set_job("job");
  hello.set_rank(rank);
  hello.set_world_size(2);
  hello.set_attempt(attempt);
  hello.set_node("node");
  hello.set_started_unix_ns(started);
  return hello;
}

RankState MakeState(uint64_t at, Life life = Life::kRunning, char run_state = 'S') {
  RankState state;
  state.at_unix_ns = at;
  state.process.life = life;
  state.process.run_state = run_state;
  return state;
}

RankStep MakeStep(uint64_t step) {
  RankStep out;
  out.step = StepId(step);
  out.duration_ns = kSecond;
  return out;
}

Finding Suspicion() {
  Finding finding;
  finding.id = "job-1";
  finding.job = "job";
  finding.first_seen_unix_ns = finding.last_seen_unix_ns = kStart;
  finding.verdict.finding_class = "hang";
  finding.verdict.cause = "user_code_stuck";
  finding.verdict.ranks = {Rank(1)};
  return finding;
}

class LiveJobTest : public testing::Test {
 protected:
  LiveJobTest() : job_(JobKey(1), "owner", MakeHello(10, 0), kStart) {
    daemon_->last_heard_unix_ns = kStart;
    for (uint32_t r = 0; r < 2; ++r) Hello(MakeHello(10 + r, r));
  }

  LiveJob::HelloResult Hello(const v1::RankHello& hello, uint64_t now = kStart) {
    return job_.TakeHello(hello, daemon_, now);
  }
  bool State(uint32_t rank, RankState state, std::vector<PartStatus> parts = {}) {
    const uint64_t at = state.at_unix_ns;
    return job_.TakeState(SourceId(10 + rank), Rank(rank), std::move(state), std::move(parts), at);
  }
  const RankRecord& rank(uint32_t r) const { return job_.job().ranks.at(Rank(r)); }
  std::string StateName(uint64_t now) const { return job_.Summary(now).state(); }

  std::shared_ptr<Daemon> daemon_ = std::make_shared<Daemon>();
  LiveJob job_;
};

TEST_F(LiveJobTest, StepsAreKeptInOrderOnceAndBounded) {
  for (uint64_t s : {3, 1, 2, 3, 1}) job_.TakeStep(SourceId(10), Rank(0), MakeStep(s), kStart);
  ASSERT_EQ(rank(0).steps.size(), 3u);
  EXPECT_EQ(rank(0).steps.front().step, StepId(1));
  EXPECT_EQ(rank(0).steps.back().step, StepId(3));
  for (uint64_t s = 4; s < 1000; ++s) job_.TakeStep(SourceId(10), Rank(0), MakeStep(s), kStart);
  job_.TakeStep(SourceId(10), Rank(0), MakeStep(0), kStart);
  EXPECT_EQ(rank(0).steps.size(), kKeptSteps);
  EXPECT_EQ(rank(0).steps.back().step, StepId(999));
}

TEST_F(LiveJobTest, NewestStateStaysAndCpuTimeBeforeIsKept) {
  RankState first = MakeState(kStart + 1);
  first.process.main_thread_cpu_ns = 100;
  first.process.run_delay_ns = 40;
  first.communicators.emplace_back().recent.emplace_back();
  State(0, first);
  RankState second = MakeState(kStart + 3);
  second.communicators.emplace_back();
  State(0, second);
  State(0, MakeState(kStart + 2, Life::kDied));  // late
  EXPECT_EQ(rank(0).state.at_unix_ns, kStart + 3);
  EXPECT_EQ(rank(0).state.process.life, Life::kRunning);
  EXPECT_EQ(rank(0).previous_at_unix_ns, kStart + 1);
  EXPECT_EQ(rank(0).previous_main_thread_cpu_ns, 100u);
  EXPECT_EQ(rank(0).previous_run_delay_ns, 40u);
  EXPECT_TRUE(rank(0).state.communicators.at(0).recent.empty());
}

TEST_F(LiveJobTest, ChangesOfLifeAreUrgentAndDated) {
  EXPECT_FALSE(State(0, MakeState(kStart + 1)));
  EXPECT_TRUE(State(0, MakeState(kStart + 2, Life::kRunning, 'T')));
  EXPECT_FALSE(State(0, MakeState(kStart + 3, Life::kRunning, 'T')));
  EXPECT_EQ(rank(0).stopped_since_unix_ns, kStart + 2);
  EXPECT_TRUE(State(0, MakeState(kStart + 4)));
  EXPECT_EQ(rank(0).stopped_since_unix_ns, 0u);
  EXPECT_TRUE(State(0, MakeState(kStart + 5, Life::kDied)));
  EXPECT_FALSE(State(0, MakeState(kStart + 6, Life::kDied)));
  EXPECT_EQ(rank(0).ended_unix_ns, kStart + 5);
}

TEST_F(LiveJobTest, OtherSourcesOfARankAreIgnored) {
  job_.TakeStep(SourceId(99), Rank(0), MakeStep(1), kStart);
  EXPECT_FALSE(job_.TakeState(SourceId(99), Rank(0), MakeState(kStart, Life::kDied), {}, kStart));
  EXPECT_TRUE(rank(0).steps.empty());
  EXPECT_EQ(rank(0).state.at_unix_ns, 0u);
}

TEST_F(LiveJobTest, EndsWhenAllRanksHaveBeenGoneForAWhile) {
  State(0, MakeState(kStart + 1, Life::kExited));
  State(1, MakeState(kStart + 1, Life::kDied));
  job_.Look(kStart + kSecond);
  job_.Look(kStart + kSecond + kEndedAfterNs - 1);
  EXPECT_EQ(StateName(kStart + kSecond), "running");
  job_.Look(kStart + kSecond + kEndedAfterNs);
  EXPECT_EQ(StateName(kStart + 9 * kSecond), "ended");
  EXPECT_EQ(job_.ended_unix_ns(), kStart + kSecond + kEndedAfterNs);
}

TEST_F(LiveJobTest, OneLivingRankKeepsTheJobRunning) {
  State(0, MakeState(kStart + 1, Life::kExited));
  for (uint64_t s = 1; s < 60; ++s) job_.Look(kStart + s * kSecond);
  EXPECT_FALSE(job_.job().ended);
}

TEST_F(LiveJobTest, RanksNeverSeenDelayTheEnd) {
  LiveJob job(JobKey(2), "owner", MakeHello(10, 0), kStart);
  job.TakeHello(MakeHello(10, 0), daemon_, kStart);
  job.TakeState(SourceId(10), Rank(0), MakeState(kStart, Life::kExited), {}, kStart);
  job.Look(kStart);
  job.Look(kStart + kEndedAfterNs + kSecond);
  EXPECT_FALSE(job.job().ended);
  job.Look(kStart + kIncompleteEndedAfterNs);
  EXPECT_TRUE(job.job().ended);
}

TEST_F(LiveJobTest, SilenceMakesItLostAndAWordBringsItBack) {
  EXPECT_EQ(StateName(kStart + kLostAfterNs), "running");
  EXPECT_EQ(StateName(kStart + kLostAfterNs + 1), "lost");
  State(0, MakeState(kStart + kLostAfterNs + 2));
  EXPECT_EQ(StateName(kStart + kLostAfterNs + 3), "running");
}

TEST_F(LiveJobTest, RankOfASilentDaemonIsLostNotDead) {
  State(0, MakeState(kStart));
  EXPECT_EQ(job_.Report(kStart + kSilentAfterNs).ranks(0).state(), "running");
  EXPECT_EQ(job_.Report(kStart + kSilentAfterNs + 1).ranks(0).state(), "lost");
  EXPECT_EQ(job_.Report(kStart + kSilentAfterNs + 1).job().ranks_alive(), 2u);
}

TEST_F(LiveJobTest, HigherAttemptDropsTheRanksBefore) {
  job_.TakeStep(SourceId(10), Rank(0), MakeStep(5), kStart);
  EXPECT_EQ(Hello(MakeHello(30, 1, 1, kStart + kSecond)), LiveJob::HelloResult::kCurrent);
  EXPECT_EQ(job_.job().attempt, 1u);
  EXPECT_EQ(job_.job().ranks.size(), 1u);
  EXPECT_EQ(Hello(MakeHello(10, 0, 0)), LiveJob::HelloResult::kOld);
}

TEST_F(LiveJobTest, HigherAttemptRevivesAJobThatSeemedOver) {
  job_.End(-1, kStart + kSecond);
  EXPECT_EQ(Hello(MakeHello(30, 0, 1, kStart + 9 * kSecond)), LiveJob::HelloResult::kCurrent);
  EXPECT_EQ(StateName(kStart + 9 * kSecond), "running");
}

TEST_F(LiveJobTest, SameIdentityAfterTheEndIsAnotherJob) {
  job_.End(0, kStart + kSecond);
  EXPECT_EQ(Hello(MakeHello(30, 0, 0, kStart + 2 * kSecond)), LiveJob::HelloResult::kOtherJob);
  // One that began before the end is only late.
  EXPECT_EQ(Hello(MakeHello(11, 1, 0, kStart)), LiveJob::HelloResult::kCurrent);
  EXPECT_EQ(StateName(kStart + 3 * kSecond), "ended");
}

TEST_F(LiveJobTest, SameIdentityWhenAllRanksAreGoneIsAnotherJob) {
  State(0, MakeState(kStart + 1, Life::kDied));
  EXPECT_EQ(Hello(MakeHello(30, 0, 0, kStart + 5)), LiveJob::HelloResult::kCurrent);  // replaced
  job_.TakeState(SourceId(30), Rank(0), MakeState(kStart + 6, Life::kDied), {}, kStart + 6);
  State(1, MakeState(kStart + 6, Life::kDied));
  EXPECT_EQ(Hello(MakeHello(31, 0, 0, kStart + 7)), LiveJob::HelloResult::kOtherJob);
}

TEST_F(LiveJobTest, ExitStatusOfTheCommandComesAfterTheRanksWereGone) {
  job_.End(-1, kStart + kSecond);
  job_.End(7, kStart + 2 * kSecond);
  EXPECT_EQ(job_.Summary(kStart).exit_status(), 7);
  EXPECT_EQ(job_.ended_unix_ns(), kStart + kSecond);
}

TEST_F(LiveJobTest, IdentityIsStoredAtOnceAndSummariesNowAndThen) {
  StoreWrites first;
  job_.CollectWrites(kStart, &first);
  EXPECT_EQ(first.jobs.size(), 1u);
  EXPECT_EQ(first.ranks.size(), 2u);
  job_.TakeStep(SourceId(10), Rank(0), MakeStep(0), kStart);
  StoreWrites soon;
  job_.CollectWrites(kStart + kSecond, &soon);
  EXPECT_TRUE(soon.empty());
  StoreWrites later;
  job_.CollectWrites(kStart + kSummaryEveryNs, &later);
  ASSERT_EQ(later.ranks.size(), 1u);
  EXPECT_EQ(later.ranks.begin()->second.summary.steps(), 1u);
  StoreWrites unchanged;
  job_.CollectWrites(kStart + 3 * kSummaryEveryNs, &unchanged);
  EXPECT_TRUE(unchanged.empty());
}

TEST_F(LiveJobTest, SuspicionIsWithdrawnWhenAllRanksLeaveWell) {
  for (int32_t exit_code : {0, 1}) {
    JobMemory memory;
    StoreWrites writes;
    LiveJob job(JobKey(1), "owner", MakeHello(10, 0), kStart);
    for (uint32_t r = 0; r < 2; ++r) job.TakeHello(MakeHello(10 + r, r), daemon_, kStart);
    job.CollectWrites(kStart, &writes);
    memory.job = writes.jobs.begin()->second;
    for (const auto& [key, stored] : writes.ranks) memory.ranks.push_back(stored);
    memory.findings = {Suspicion()};
    LiveJob restored(std::move(memory), "owner");
    for (uint32_t r = 0; r < 2; ++r) {
      RankState state = MakeState(kStart + kSecond, Life::kExited);
      state.process.exit_code = exit_code;
      restored.TakeState(SourceId(10 + r), Rank(r), state, {}, kStart + kSecond);
    }
    restored.End(-1, kStart + 9 * kSecond);
    EXPECT_EQ(restored.findings().at(0).state,
              exit_code == 0 ? FindingState::kWithdrawn : FindingState::kSuspected);
    EXPECT_EQ(restored.Summary(kStart).exit_status(), -1);
    restored.End(0, kStart + 10 * kSecond);  // the command says so after all
    EXPECT_EQ(restored.findings().at(0).state, FindingState::kWithdrawn);
  }
}

// As after a restart of the engine, or when a node is cut off: no news is no all-clear.
TEST_F(LiveJobTest, FindingOfARankThatIsAbsentStays) {
  JobMemory memory;
  StoreWrites writes;
  job_.CollectWrites(kStart, &writes);
  memory.job = writes.jobs.begin()->second;
  for (const auto& [key, stored] : writes.ranks) memory.ranks.push_back(stored);
  Finding finding = Suspicion();
  finding.state = FindingState::kOpen;
  finding.verdict.cause = "process_stopped";
  finding.verdict.conclusive = true;
  memory.findings = {finding};
  LiveJob restored(std::move(memory), "owner");
  // Rank 0 speaks, rank 1 does not.
  restored.TakeHello(MakeHello(10, 0), daemon_, kStart);
  for (uint64_t s = 1; s < 60; ++s) {
    daemon_->last_heard_unix_ns = kStart + s * kSecond;
    restored.TakeState(SourceId(10), Rank(0), MakeState(kStart + s * kSecond), {},
                       kStart + s * kSecond);
    restored.Look(kStart + s * kSecond);
  }
  ASSERT_EQ(restored.findings().size(), 1u);
  EXPECT_EQ(restored.findings()[0].state, FindingState::kOpen);
}

}  // namespace
}  // namespace flare::diag
