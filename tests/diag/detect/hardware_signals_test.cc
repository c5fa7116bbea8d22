// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/hardware_signals.h"

#include <gmock/gmock.h>

#include "diag/detect/xid_table.h"

namespace flare::diag {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kNow = 1'800'000'000'000'000'000;
constexpr uint64_t kMinuteNs = 60'000'000'000;

HostSignal Signal(SignalKind kind, std::optional<int64_t> code, std::optional<double> value = {}) {
  HostSignal signal;
  signal.kind = kind;
  signal.node = "a";
  signal.device = "0000:19:00";
  signal.code = code;
  signal.value = value;
  signal.text = "said so";
  signal.source = "a log, line 1";
  return signal;
}

std::vector<Verdict> Detect(std::vector<HostSignal> signals) {
  Job job;
  job.signals = std::move(signals);
  return DetectSignals(job, kNow);
}

TEST(HardwareSignalsTest, XidsGoToTheTeamThatCanMendThem) {
  struct Case {
    int64_t xid;
    const char* cause;
    const char* team;
    bool conclusive;
  };
  for (const Case& c :
       {Case{13, "gpu_xid", "algorithm", true}, Case{31, "gpu_xid", "algorithm", true},
        Case{43, "gpu_xid", "algorithm", true}, Case{48, "ecc_error", "operations", true},
        Case{63, "ecc_error", "operations", false}, Case{64, "ecc_error", "operations", true},
        Case{74, "gpu_xid", "operations", true}, Case{79, "gpu_lost", "operations", true},
        Case{94, "ecc_error", "operations", true}, Case{95, "ecc_error", "operations", true},
        Case{119, "gpu_xid", "operations", true}, Case{120, "gpu_xid", "operations", true},
        Case{140, "ecc_error", "operations", true}, Case{777, "gpu_xid", "operations", false}}) {
    const auto verdicts = Detect({Signal(SignalKind::kXid, c.xid)});
    ASSERT_EQ(verdicts.size(), 1u) << c.xid;
    EXPECT_EQ(verdicts[0].finding_class, "error");
    EXPECT_EQ(verdicts[0].cause, c.cause) << c.xid;
    EXPECT_EQ(verdicts[0].team, c.team) << c.xid;
    EXPECT_EQ(verdicts[0].conclusive, c.conclusive) << c.xid;
    EXPECT_THAT(verdicts[0].nodes, ElementsAre("a"));
    EXPECT_THAT(verdicts[0].ranks, IsEmpty());
  }
}

TEST(HardwareSignalsTest, XidsThatFollowOthersAreNoFindings) {
  for (int64_t xid : {45, 154, 37, 106}) {
    EXPECT_THAT(Detect({Signal(SignalKind::kXid, xid)}), IsEmpty()) << xid;
  }
}

TEST(HardwareSignalsTest, FaultOfTheProgramAfterAFaultOfItsGpuIsNotBlamed) {
  HostSignal memory = Signal(SignalKind::kXid, 48), program = Signal(SignalKind::kXid, 43);
  memory.at_unix_ns = kNow - 100 * kMinuteNs;
  program.at_unix_ns = memory.at_unix_ns + kMinuteNs;
  const auto follows = Detect({memory, program});
  ASSERT_EQ(follows.size(), 1u);
  EXPECT_EQ(follows[0].cause, "ecc_error");
  program.at_unix_ns = memory.at_unix_ns + 60 * kMinuteNs;
  EXPECT_EQ(Detect({memory, program}).size(), 2u);
  program.at_unix_ns = memory.at_unix_ns;
  program.device = "0000:3b:00";
  EXPECT_EQ(Detect({memory, program}).size(), 2u);
}

TEST(HardwareSignalsTest, AddressesAreComparedAsTheyAreMeant) {
  HostSignal memory = Signal(SignalKind::kXid, 48), program = Signal(SignalKind::kXid, 13);
  program.device = "00000000:19:00.0";
  EXPECT_EQ(Detect({memory, program}).size(), 1u);
}

TEST(HardwareSignalsTest, NvlinkErrorsCountWhenTheySayTheyAreFatal) {
  EXPECT_TRUE(Detect({Signal(SignalKind::kXid, 149, 1)}).at(0).conclusive);
  EXPECT_FALSE(Detect({Signal(SignalKind::kXid, 149, 0)}).at(0).conclusive);
  EXPECT_TRUE(Detect({Signal(SignalKind::kSxid, 20034, 1)}).at(0).conclusive);
  EXPECT_THAT(Detect({Signal(SignalKind::kSxid, 12028, 0)}), IsEmpty());
}

TEST(HardwareSignalsTest, MemoryThatWasMendedIsNoFinding) {
  const auto ecc = [](EccFact fact, double count) {
    return Detect({Signal(SignalKind::kEcc, static_cast<int64_t>(fact), count)});
  };
  EXPECT_THAT(ecc(EccFact::kAggregateUncorrectable, 5), IsEmpty());
  EXPECT_THAT(ecc(EccFact::kRetiredPages, 59), IsEmpty());
  EXPECT_TRUE(ecc(EccFact::kRetiredPages, 60).at(0).conclusive);
  EXPECT_TRUE(ecc(EccFact::kVolatileUncorrectable, 1).at(0).conclusive);
  EXPECT_TRUE(ecc(EccFact::kRetirementFailed, 1).at(0).conclusive);
}

TEST(HardwareSignalsTest, ClockIsHeldDownOnlyWhenItIsBelowItsMaximum) {
  const auto clock = [](ClockLimit limit, std::optional<double> mhz) {
    return Detect({Signal(SignalKind::kGpuClock, static_cast<int64_t>(limit), mhz)});
  };
  EXPECT_THAT(clock(ClockLimit::kPowerCap, 1200), IsEmpty());
  const auto hot = clock(ClockLimit::kThermal, 345);
  ASSERT_EQ(hot.size(), 1u);
  EXPECT_EQ(hot[0].finding_class, "fail_slow");
  EXPECT_EQ(hot[0].cause, "gpu_clock");
  EXPECT_TRUE(hot[0].conclusive);
  EXPECT_EQ(hot[0].evidence.at(0).value, 345.0);
  EXPECT_FALSE(clock(ClockLimit::kThermal, {}).at(0).conclusive);
}

TEST(HardwareSignalsTest, LinksAreJudgedByThoseLikeThem) {
  EXPECT_THAT(Detect({Signal(SignalKind::kLinkDown, {}, 0.25)}), IsEmpty());
  EXPECT_FALSE(Detect({Signal(SignalKind::kLinkDown, {}, 0.75)}).at(0).conclusive);
  EXPECT_TRUE(Detect({Signal(SignalKind::kLinkDown, {})}).at(0).conclusive);
  EXPECT_TRUE(Detect({Signal(SignalKind::kNvlinkDown, 6, 2)}).at(0).conclusive);
  EXPECT_FALSE(Detect({Signal(SignalKind::kNvlinkDown, {})}).at(0).conclusive);
  HostSignal bridge = Signal(SignalKind::kNvlinkDown, {});
  bridge.text = "NVIDIA A100-PCIE-40GB PCIe: all NVLinks inactive";
  EXPECT_THAT(Detect({bridge}), IsEmpty());
  EXPECT_FALSE(Detect({Signal(SignalKind::kLinkFlap, {}, 1)}).at(0).conclusive);
  EXPECT_TRUE(Detect({Signal(SignalKind::kLinkFlap, {}, 2)}).at(0).conclusive);
  EXPECT_THAT(Detect({Signal(SignalKind::kLinkErrors, {}, 1e6)}), IsEmpty());
}

TEST(HardwareSignalsTest, FewCorrectedPcieErrorsAreOrdinary) {
  HostSignal errors = Signal(SignalKind::kPcieErrors, 0);
  errors.count = 99;
  EXPECT_THAT(Detect({errors}), IsEmpty());
  errors.count = 100;
  EXPECT_EQ(Detect({errors}).at(0).cause, "pcie_degraded");
  EXPECT_TRUE(Detect({Signal(SignalKind::kPcieErrors, 2)}).at(0).conclusive);
  EXPECT_TRUE(Detect({Signal(SignalKind::kPcieDegraded, 1, 0.5)}).at(0).conclusive);
  EXPECT_FALSE(Detect({Signal(SignalKind::kPcieDegraded, 0, 0.5)}).at(0).conclusive);
}

TEST(HardwareSignalsTest, KilledProcessIsTheRankWithItsPid) {
  Job job;
  RankRecord& record = job.ranks[Rank(3)];
  record.rank = Rank(3);
  record.pid = 4242;
  record.node = "a";
  HostSignal kill = Signal(SignalKind::kOutOfMemory, {});
  kill.device = "trainer[4242]";
  job.signals = {kill};
  const auto verdicts = DetectSignals(job, kNow);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].cause, "out_of_memory_kill");
  EXPECT_THAT(verdicts[0].ranks, ElementsAre(Rank(3)));
  EXPECT_TRUE(verdicts[0].conclusive);
  job.signals[0].node = "b";
  EXPECT_FALSE(DetectSignals(job, kNow).at(0).conclusive);  // of another host, by no known name
}

TEST(HardwareSignalsTest, CrashThatTheProcessItselfShowsIsLeftToIt) {
  HostSignal crash = Signal(SignalKind::kCrash, {});
  crash.device = "python3[77]";
  EXPECT_EQ(Detect({crash}).at(0).cause, "process_crashed");
  Job job;
  job.ranks[Rank(0)].state.process.life = Life::kDied;
  job.signals = {crash};
  EXPECT_THAT(DetectSignals(job, kNow), IsEmpty());
}

TEST(HardwareSignalsTest, OneVerdictGathersANodeAndSaysHowOften) {
  std::vector<HostSignal> signals;
  for (int i = 0; i < 6; ++i) {
    signals.push_back(Signal(SignalKind::kXid, 79));
    signals.back().device = "0000:1" + std::to_string(i) + ":00";
    signals.back().at_unix_ns = kNow - 5 * kMinuteNs + static_cast<uint64_t>(i);
  }
  signals[0].count = 3;
  signals.push_back(Signal(SignalKind::kXid, 79));
  signals.back().node = "b";
  const auto verdicts = Detect(signals);
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_THAT(verdicts[0].summary, HasSubstr("Node a says: GPU 0000:10:00: the GPU has fallen off "
                                             "the bus (Xid 79), 3 times; GPU 0000:11:00"));
  EXPECT_THAT(verdicts[0].summary, HasSubstr("; and 2 more."));
  EXPECT_EQ(verdicts[0].since_unix_ns, kNow - 5 * kMinuteNs);
  EXPECT_EQ(verdicts[0].lost_share, 0);
  EXPECT_THAT(verdicts[1].nodes, ElementsAre("b"));
}

TEST(HardwareSignalsTest, EveryNumberStandsInTheTableOnce) {
  for (int64_t number = 0; number < 200; ++number) {
    const XidFact& fact = XidFactOf(number);
    EXPECT_TRUE(fact.number == number || fact.xid_class == XidClass::kUnknown) << number;
  }
}

}  // namespace
}  // namespace flare::diag
