// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <thread>

#include "daemon/host/process_probe.h"
#include "daemon/version.h"
#include "tests/daemon/segment_fixture.h"
#include "tests/daemon/uplink/fake_engine.h"

namespace flare::daemon {
namespace {

// A process that lives until told otherwise, to own a segment.
class OwnerProcess {
 public:
  OwnerProcess() {
    pid_ = fork();
    if (pid_ == 0) {
      while (true) pause();
    }
    start_clock_ticks_ = StartClockTicksOf(pid_);
  }
  ~OwnerProcess() { End(); }
  void Kill(int signal) { kill(pid_, signal); }
  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }
  uint64_t start_clock_ticks() const { return start_clock_ticks_; }

 private:
  pid_t pid_ = 0;
  uint64_t start_clock_ticks_ = 0;
};

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() {
    std::filesystem::create_directories(segments_);
    options_.segment_dir = segments_;
    options_.spool_dir = directory_.path() + "/spool";
    options_.engine_address = address_;
    options_.poll_ms = 1;
    options_.scan_ms = 5;
    options_.batch_ms = 5;
    options_.linger_ms = 0;
  }
  std::unique_ptr<Daemon> MustStart() {
    auto daemon = Daemon::Start(options_);
    EXPECT_TRUE(daemon.ok()) << daemon.status().message();
    return daemon.ok() ? std::move(daemon).value() : nullptr;
  }
  static bool Eventually(const std::function<bool()>& condition) {
    const uint64_t give_up = MonotonicNs() + 10'000'000'000;
    while (!condition()) {
      if (MonotonicNs() > give_up) return false;
      std::this_thread::yield();
    }
    return true;
  }
  static void RunSteps(SegmentFixture* fixture, uint64_t first, int count) {
    for (int i = 0; i < count; ++i) {
      const uint64_t now = MonotonicNs();
      Event event{};
      event.kind = EventKind::kCollective;
      event.comm = 5;
      event.sequence = first + static_cast<uint64_t>(i);
      event.start_ticks = now - 1000;
      event.end_ticks = now;
      fixture->Write(0, event);
      fixture->WriteStep(0, first + static_cast<uint64_t>(i), now + 1);
    }
  }
  SegmentSettings OwnedBy(const OwnerProcess& owner, uint64_t source = 77) {
    SegmentSettings settings;
    settings.pid = owner.pid();
    settings.start_clock_ticks = owner.start_clock_ticks();
    settings.source = source;
    return settings;
  }

  TemporaryDirectory directory_;
  std::string segments_ = directory_.path() + "/segments";
  std::string address_ = "unix:" + directory_.path() + "/engine.sock";
  FakeEngine engine_{address_};
  DaemonOptions options_;
};

TEST_F(DaemonTest, SegmentOlderThanTheDaemonIsFoldedAndSent) {
  SegmentFixture fixture(segments_);
  RunSteps(&fixture, 0, 10);
  auto daemon = MustStart();
  ASSERT_TRUE(engine_.WaitFor([&] { return engine_.StepCount() == 10; }));
  ASSERT_TRUE(Eventually([&] { return daemon->counters().steps_acknowledged == 10; }));
  daemon->Stop();
  const v1::RankHello& hello = engine_.batches_.begin()->second.hellos(0);
  EXPECT_EQ(hello.job(), "job");
  EXPECT_EQ(hello.world_size(), 2u);
  EXPECT_EQ(hello.pid(), getpid());
  EXPECT_EQ(daemon->counters().events_read, 20u);
}

TEST_F(DaemonTest, SegmentThatComesLaterIsFound) {
  auto daemon = MustStart();
  SegmentFixture fixture(segments_);
  RunSteps(&fixture, 0, 3);
  ASSERT_TRUE(engine_.WaitFor([&] { return engine_.StepCount() == 3; }));
  ASSERT_TRUE(Eventually([&] { return !daemon->local_ranks().empty(); }));
  const LocalRank rank = daemon->local_ranks().at(0);
  EXPECT_TRUE(rank.alive);
  EXPECT_EQ(rank.pid, getpid());
  EXPECT_EQ(rank.phase, "running");
}

TEST_F(DaemonTest, KilledOwnerIsReportedDeadAndItsSegmentRemoved) {
  OwnerProcess owner;
  SegmentFixture fixture(segments_, OwnedBy(owner));
  RunSteps(&fixture, 0, 3);
  auto daemon = MustStart();
  ASSERT_TRUE(engine_.WaitFor([&] { return engine_.states_.contains(77); }));
  owner.End();
  ASSERT_TRUE(engine_.WaitFor(
      [&] { return engine_.states_[77].process().life() == v1::ProcessState::LIFE_DIED; }));
  EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists(fixture.path()); }));
  EXPECT_EQ(engine_.StepCount(), 3u);
}

TEST_F(DaemonTest, OwnerThatReachedExitIsReportedWithItsStatusAndException) {
  OwnerProcess owner;
  SegmentFixture fixture(segments_, OwnedBy(owner));
  auto daemon = MustStart();
  strncpy(fixture.header()->exception_type, "ValueError", 63);
  strncpy(fixture.header()->exception_text, "bad batch", 63);
  fixture.header()->exception_version.store(2);
  fixture.header()->exit_code.store(1);
  fixture.header()->phase.store(static_cast<uint32_t>(ProcessPhase::kExited));
  owner.End();
  ASSERT_TRUE(engine_.WaitFor(
      [&] { return engine_.states_[77].process().life() == v1::ProcessState::LIFE_EXITED; }));
  daemon->Stop();
  EXPECT_EQ(engine_.states_[77].process().exit_code(), 1);
  EXPECT_EQ(engine_.states_[77].process().exception_type(), "ValueError");
  EXPECT_EQ(engine_.states_[77].process().exception_text(), "bad batch");
  EXPECT_FALSE(std::filesystem::exists(fixture.path()));
}

TEST_F(DaemonTest, StoppedOwnerIsReportedStoppedAndAlive) {
  OwnerProcess owner;
  SegmentFixture fixture(segments_, OwnedBy(owner));
  auto daemon = MustStart();
  owner.Kill(SIGSTOP);
  ASSERT_TRUE(engine_.WaitFor([&] { return engine_.states_[77].process().run_state() == "T"; }));
  EXPECT_EQ(engine_.states_[77].process().life(), v1::ProcessState::LIFE_RUNNING);
  owner.Kill(SIGCONT);
  EXPECT_TRUE(engine_.WaitFor([&] { return engine_.states_[77].process().run_state() == "S"; }));
}

TEST_F(DaemonTest, PidUsedAgainByAnotherProcessIsNotTheOwner) {
  SegmentSettings settings;
  settings.start_clock_ticks += 1;
  SegmentFixture fixture(segments_, settings);
  auto daemon = MustStart();
  ASSERT_TRUE(engine_.WaitFor(
      [&] { return engine_.states_[77].process().life() == v1::ProcessState::LIFE_DIED; }));
}

TEST_F(DaemonTest, ProgramReplacedByExecEndsWithoutBlame) {
  OwnerProcess owner;
  SegmentFixture before(segments_, OwnedBy(owner, 1));
  SegmentFixture after(segments_, OwnedBy(owner, 2));
  auto daemon = MustStart();
  ASSERT_TRUE(engine_.WaitFor([&] {
    return engine_.states_[1].process().life() == v1::ProcessState::LIFE_EXITED &&
           engine_.states_[2].process().life() == v1::ProcessState::LIFE_RUNNING;
  }));
}

TEST_F(DaemonTest, RankWithoutProgressIsLookedAtClosely) {
  SegmentFixture fixture(segments_);
  RunSteps(&fixture, 0, 1);
  fixture.comm(0)->comm.store(5);
  fixture.comm(0)->launched.store(1);
  ThreadSlot* slot = fixture.thread(0);
  slot->open[0].kind = EventKind::kCollective;
  slot->open[0].comm = 5;
  slot->open[0].start_ticks = MonotonicNs();
  slot->depth.store(1);
  auto daemon = MustStart();
  ASSERT_TRUE(engine_.WaitFor([&] {
    const auto& state = engine_.states_[77];
    return state.communicators_size() == 1 && state.communicators(0).recent_size() == 1;
  }));
  const v1::RankState state = engine_.states_[77];
  ASSERT_EQ(state.open_calls_size(), 1);
  EXPECT_TRUE(state.open_calls(0).main_thread());
  EXPECT_GT(state.last_progress_unix_ns(), 0u);
}

TEST_F(DaemonTest, SwitchedOffJobIsToldItsSegmentsAndShowsNothingThatLooksStuck) {
  SegmentFixture fixture(segments_);
  auto daemon = MustStart();
  ASSERT_TRUE(engine_.WaitFor([&] { return engine_.states_.contains(77); }));
  v1::EngineMessage message;
  message.mutable_control()->mutable_job_switch()->set_job("job");
  engine_.Send(message);
  ASSERT_TRUE(Eventually([&] { return fixture.header()->enabled.load() == 0; }));
  ASSERT_TRUE(engine_.WaitFor([&] {
    const auto& parts = engine_.states_[77].parts();
    return !parts.empty() && parts[0].part() == "recording" && parts[0].state() == "off";
  }));
  EXPECT_EQ(engine_.states_[77].last_progress_unix_ns(), 0u);
  EXPECT_EQ(engine_.states_[77].open_calls_size(), 0);
  // A rank of the job that comes later is switched off too; one of another job is not.
  SegmentFixture later(segments_, {.rank = 1, .source = 78});
  SegmentFixture other(segments_, {.job = "other", .source = 79});
  ASSERT_TRUE(Eventually([&] { return later.header()->enabled.load() == 0; }));
  ASSERT_TRUE(engine_.WaitFor([&] { return engine_.states_.contains(79); }));
  EXPECT_EQ(other.header()->enabled.load(), 1u);
}

TEST_F(DaemonTest, EngineThatGoesAndComesBackGetsEachStepOnce) {
  SegmentFixture fixture(segments_);
  auto daemon = MustStart();
  RunSteps(&fixture, 0, 5);
  ASSERT_TRUE(engine_.WaitFor([&] { return engine_.StepCount() == 5; }));
  engine_.Shutdown();
  RunSteps(&fixture, 5, 5);
  ASSERT_TRUE(Eventually([&] { return daemon->counters().steps_spooled == 10; }));
  engine_.Listen();
  ASSERT_TRUE(engine_.WaitFor([&] { return engine_.StepCount() == 10; }));
  daemon->Stop();
  std::map<uint64_t, int> seen;
  for (const auto& [sequence, batch] : engine_.batches_) {
    for (const auto& step : batch.steps()) ++seen[step.step()];
  }
  EXPECT_EQ(seen.size(), 10u);
  for (const auto& [step, times] : seen) EXPECT_EQ(times, 1) << step;
}

TEST_F(DaemonTest, RestartedDaemonGoesOnWithAWholeStep) {
  SegmentFixture fixture(segments_, {.ring_events = 1024});
  {
    auto daemon = MustStart();
    RunSteps(&fixture, 0, 5);
    ASSERT_TRUE(engine_.WaitFor([&] { return engine_.StepCount() == 5; }));
  }
  EXPECT_EQ(fixture.thread(0)->tail.load(), 9u);  // the boundary of step 4 stays
  RunSteps(&fixture, 5, 5);
  auto daemon = MustStart();
  ASSERT_TRUE(engine_.WaitFor([&] { return engine_.StepCount() == 10; }));
  daemon->Stop();
  for (const auto& [key, step] : engine_.Steps()) {
    EXPECT_EQ(step.communicators_size(), 1) << key.second;
    EXPECT_GT(step.duration_ns(), 0u) << key.second;
  }
  EXPECT_EQ(daemon->counters().drops["daemon_restart"], 0u);
}

TEST_F(DaemonTest, DaemonThatBeginsInsideAStepSaysSo) {
  SegmentFixture fixture(segments_);
  RunSteps(&fixture, 0, 5);
  fixture.thread(0)->tail.store(2);
  auto daemon = MustStart();
  ASSERT_TRUE(engine_.WaitFor([&] { return engine_.StepCount() == 4; }));
  EXPECT_TRUE(Eventually([&] { return daemon->counters().drops["daemon_restart"] == 1; }));
}

// Events go back to the process only when their step is on the spool, whether or not an engine is.
TEST_F(DaemonTest, StepsAreReleasedWithoutAnEngineToo) {
  engine_.Shutdown();
  SegmentFixture fixture(segments_, {.ring_events = 1024});
  auto daemon = MustStart();
  RunSteps(&fixture, 0, 5);
  EXPECT_TRUE(Eventually([&] { return fixture.thread(0)->tail.load() == 9; }));
  EXPECT_EQ(daemon->counters().steps_spooled, 5u);
}

TEST_F(DaemonTest, SecondDaemonOnTheSameDirectoryIsRefusedInWords) {
  auto daemon = MustStart();
  options_.spool_dir += "-2";
  auto second = Daemon::Start(options_);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), ::testing::HasSubstr("another flared already serves"));
  EXPECT_EQ(ReadSmallFile(segments_ + "/flared.lock"), std::string(kVersion) + "\n");
}

TEST_F(DaemonTest, UnusableSegmentIsCountedOnceAndLeftAlone) {
  SegmentFixture fixture(segments_);
  fixture.header()->version = 2;
  auto daemon = MustStart();
  SegmentFixture good(segments_, {.source = 78});
  ASSERT_TRUE(engine_.WaitFor([&] { return engine_.states_.contains(78); }));
  daemon->Stop();
  EXPECT_EQ(daemon->counters().segments_rejected, 1u);
  EXPECT_TRUE(std::filesystem::exists(fixture.path()));
}

TEST_F(DaemonTest, SegmentThatShrinksUnderUsHarmsNobody) {
  OwnerProcess other;
  SegmentFixture good(segments_, OwnedBy(other, 78));
  auto daemon = MustStart();
  {
    SegmentFixture bad(segments_);
    RunSteps(&bad, 0, 2);
    ASSERT_TRUE(engine_.WaitFor([&] { return engine_.StepCount() == 2; }));
    ASSERT_EQ(ftruncate(bad.fd(), 4096 * 40), 0);
  }
  RunSteps(&good, 0, 3);
  EXPECT_TRUE(engine_.WaitFor([&] { return engine_.StepCount() == 5; }));
}

}  // namespace
}  // namespace flare::daemon
