// SPDX-License-Identifier: Apache-2.0
#include "libflare/recorder.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <barrier>
#include <fstream>
#include <thread>
#include <vector>

#include "libflare/core/event_ring.h"
#include "tests/libflare/rank_process.h"

namespace flare {
namespace {

Call Named(uint64_t sequence) {
  Call call;
  call.kind = EventKind::kCollective;
  call.operation = Operation::kAllReduce;
  call.comm = 5;
  call.sequence = sequence;
  return call;
}

const void* Frame(uint64_t address) { return reinterpret_cast<const void*>(address); }

Event LastEvent() {
  const ThreadSlot* slot = MySlot();
  const uint64_t ring = (slot - g_state.threads) * uint64_t{g_state.segment.ring_events};
  return g_state.rings[ring + (slot->head.load() - 1) % g_state.segment.ring_events];
}

TEST(RecorderTest, SleepingProcessRecordsNothing) {
  EXPECT_FALSE(IsRecording());
  const CallToken token = BeginCall(Named(1), Frame(1000));
  EXPECT_EQ(token.start_ticks, 0u);
  EndCall(token, Named(1));
  RecordStep();
  EXPECT_EQ(InternName("x"), 0u);
  EXPECT_EQ(OpenCommunicator(1, "x", 0, 1), nullptr);
}

TEST(RecorderTest, CallIsOpenUntilItEndsAndThenAnEvent) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              const CallToken token = BeginCall(Named(7), Frame(1000));
              const ThreadSlot* slot = MySlot();
              FLARE_REQUIRE(slot != nullptr && slot->depth.load() == 1);
              FLARE_REQUIRE(slot->open[0].sequence == 7 && slot->open[0].version.load() % 2 == 0);
              FLARE_REQUIRE(slot->head.load() == 0);
              EndCall(token, Named(7));
              FLARE_REQUIRE(slot->depth.load() == 0 && slot->head.load() == 1);
              const Event event = LastEvent();
              FLARE_REQUIRE(event.sequence == 7 && event.comm == 5);
              FLARE_REQUIRE(event.start_ticks == token.start_ticks &&
                            event.end_ticks > event.start_ticks);
              FLARE_REQUIRE(event.thread == slot->tid.load());
              return "";
            }),
            "");
}

TEST(RecorderTest, NestedCallsCloseInnermostFirst) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              const CallToken outer = BeginCall(Named(1), Frame(1000));
              const CallToken inner = BeginCall(Named(2), Frame(900));
              FLARE_REQUIRE(MySlot()->depth.load() == 2);
              EndCall(inner, Named(2));
              FLARE_REQUIRE(MySlot()->depth.load() == 1 && MySlot()->open[0].sequence == 1);
              EndCall(outer, Named(1));
              FLARE_REQUIRE(MySlot()->depth.load() == 0 && MySlot()->head.load() == 2);
              return "";
            }),
            "");
}

TEST(RecorderTest, CallsLeftOpenByAnExceptionAreClosedByTheNext) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              const CallToken outer = BeginCall(Named(1), Frame(1000));
              BeginCall(Named(2), Frame(900));
              BeginCall(Named(3), Frame(800));
              BeginCall(Named(4), Frame(900));  // 2 and 3 were unwound
              FLARE_REQUIRE(MySlot()->depth.load() == 2 && MySlot()->open[1].sequence == 4);
              EndCall(outer, Named(1));
              FLARE_REQUIRE(MySlot()->depth.load() == 0);
              return "";
            }),
            "");
}

TEST(RecorderTest, EndOfACallClosedAsStaleLeavesItsSuccessorOpen) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              const CallToken lost = BeginCall(Named(1), Frame(900));
              BeginCall(Named(2), Frame(1000));
              BeginCall(Named(3), Frame(950));
              EndCall(CallToken{lost.start_ticks, 5}, Named(1));
              FLARE_REQUIRE(MySlot()->depth.load() == 2 && MySlot()->head.load() == 1);
              return "";
            }),
            "");
}

TEST(RecorderTest, DepthBeyondWhatIsKeptComesBackToZero) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              std::vector<CallToken> tokens;
              for (uint64_t i = 0; i < 12; ++i)
                tokens.push_back(BeginCall(Named(i), Frame(5000 - i)));
              FLARE_REQUIRE(MySlot()->depth.load() == 12);
              for (uint64_t i = 12; i-- > 0;) EndCall(tokens[i], Named(i));
              FLARE_REQUIRE(MySlot()->depth.load() == 0 && MySlot()->head.load() == 12);
              return "";
            }),
            "");
}

TEST(RecorderTest, FullRingCountsDrops) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              for (uint64_t i = 0; i < 70; ++i) EndCall(BeginCall(Named(i), Frame(1000)), Named(i));
              FLARE_REQUIRE(MySlot()->head.load() == 64 && MySlot()->dropped.load() == 6);
              FLARE_REQUIRE(g_state.rings[0].sequence == 0);
              return "";
            }),
            "");
}

TEST(RecorderTest, SlotsOfThreadsThatEndedAreUsedAgain) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              for (int i = 0; i < 40; ++i) {
                std::thread([] { EndCall(BeginCall(Named(1), Frame(1000)), Named(1)); }).join();
              }
              uint64_t events = 0;
              for (uint32_t i = 0; i < 8; ++i) events += g_state.threads[i].head.load();
              FLARE_REQUIRE(events == 40);
              FLARE_REQUIRE(Header()->drops[size_t(DropReason::kNoThreadSlot)].load() == 0);
              return "";
            }),
            "");
}

TEST(RecorderTest, MoreThreadsThanSlotsAreCounted) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              std::barrier all(12);
              std::vector<std::thread> threads;
              for (int i = 0; i < 12; ++i) {
                threads.emplace_back([&] {
                  EndCall(BeginCall(Named(1), Frame(1000)), Named(1));
                  all.arrive_and_wait();
                });
              }
              for (std::thread& thread : threads) thread.join();
              FLARE_REQUIRE(Header()->drops[size_t(DropReason::kNoThreadSlot)].load() == 4);
              return "";
            }),
            "");
}

TEST(RecorderTest, StepsAreCountedAndRecorded) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              RecordStep();
              RecordStep();
              FLARE_REQUIRE(Header()->step.load() == 2);
              const Event event = LastEvent();
              FLARE_REQUIRE(event.kind == EventKind::kStep && event.sequence == 1);
              FLARE_REQUIRE(event.start_ticks == event.end_ticks);
              return "";
            }),
            "");
}

TEST(RecorderTest, KillSwitchFileStopsRecordingWithinOneStep) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              std::ofstream(std::string(g_state.config.directory) + "/disable");
              RecordStep();
              FLARE_REQUIRE(!IsRecording());
              FLARE_REQUIRE(g_state.segment.header()->enabled.load() == 0);
              FLARE_REQUIRE(BeginCall(Named(1), Frame(1000)).start_ticks == 0);
              FLARE_REQUIRE(!EnsureAwake(WakeReason::kCall));
              return "";
            }),
            "");
}

TEST(RecorderTest, DaemonSwitchesOffAndOnAgain) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              Header()->enabled.store(0);
              FLARE_REQUIRE(BeginCall(Named(1), Frame(1000)).start_ticks == 0);
              Header()->enabled.store(1);
              FLARE_REQUIRE(BeginCall(Named(1), Frame(1000)).start_ticks != 0);
              return "";
            }),
            "");
}

TEST(RecorderTest, ForkedChildIsInertAndCannotWake) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              const auto inert = [] {
                if (IsRecording() || OwnsSegment() || EnsureAwake(WakeReason::kCall)) return 1;
                EndCall(BeginCall(Named(1), Frame(1000)), Named(1));
                RecordStep();
                return 0;
              };
              EndCall(BeginCall(Named(1), Frame(1000)), Named(1));
              FLARE_REQUIRE(RunInFork(inert) == 0);
              FLARE_REQUIRE(RunInRawClone(inert) == 0);
              FLARE_REQUIRE(MySlot()->head.load() == 1 && Header()->step.load() == 0);
              FLARE_REQUIRE(IsRecording());
              return "";
            }),
            "");
}

TEST(RecorderTest, CallOpenAcrossAForkEndsInTheParentOnly) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              const CallToken token = BeginCall(Named(1), Frame(1000));
              FLARE_REQUIRE(RunInFork([&] {
                              EndCall(token, Named(1));
                              return 0;
                            }) == 0);
              FLARE_REQUIRE(MySlot()->head.load() == 0 && MySlot()->depth.load() == 1);
              EndCall(token, Named(1));
              FLARE_REQUIRE(MySlot()->head.load() == 1);
              return "";
            }),
            "");
}

TEST(RecorderTest, TruncatedFileStopsRecordingAndNothingElse) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              EndCall(BeginCall(Named(1), Frame(1000)), Named(1));
              FLARE_REQUIRE(truncate(g_state.segment.path, 0) == 0);
              EndCall(BeginCall(Named(2), Frame(1000)), Named(2));
              RecordStep();
              FLARE_REQUIRE(!IsRecording());
              return "";
            }),
            "");
}

// As Python's faulthandler: installed after us, puts its predecessor back and raises the signal
// again.
struct sigaction g_predecessor;
void PassOn(int signal_number) {
  sigaction(signal_number, &g_predecessor, nullptr);
  raise(signal_number);
}

TEST(RecorderTest, TruncationIsSurvivedBehindAHandlerThatPassesOn) {
  EXPECT_EQ(RunAsRank([]() -> std::string {
              struct sigaction later = {};
              later.sa_handler = PassOn;
              later.sa_flags = SA_NODEFER;
              sigaction(SIGBUS, &later, &g_predecessor);
              FLARE_REQUIRE(truncate(g_state.segment.path, 0) == 0);
              RecordStep();
              FLARE_REQUIRE(!IsRecording());
              return "";
            }),
            "");
}

TEST(RecorderTest, AnotherBusErrorEndsTheProcessAsBefore) {
  const std::string wrong = RunAsRank([]() -> std::string {
    raise(SIGBUS);
    return "survived";
  });
  EXPECT_EQ(wrong, " (the rank died)");
}

}  // namespace
}  // namespace flare
