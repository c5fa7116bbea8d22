// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/library_signals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/diag/detect/job_builder.h"

namespace flare::diag {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

HostSignal Signal(SignalKind kind, std::optional<uint32_t> rank, std::string text) {
  HostSignal signal;
  signal.kind = kind;
  if (rank) signal.rank = Rank(*rank);
  signal.text = std::move(text);
  signal.source = "job.log:7";
  return signal;
}

std::vector<Verdict> Detect(std::vector<HostSignal> signals) {
  JobBuilder b(4);
  b.job.signals = std::move(signals);
  return DetectLibrarySignals(b.job, b.now());
}

Verdict Only(std::vector<HostSignal> signals) {
  const std::vector<Verdict> verdicts = Detect(std::move(signals));
  EXPECT_EQ(verdicts.size(), 1u);
  return verdicts.empty() ? Verdict{} : verdicts[0];
}

TEST(LibrarySignalsTest, JobWithoutSignalsHasNoFinding) { EXPECT_THAT(Detect({}), IsEmpty()); }

TEST(LibrarySignalsTest, ErrorsOfOneCodeAreOneFinding) {
  HostSignal error = Signal(SignalKind::kCudaError, 3, "CUDA error: unspecified launch failure.");
  error.code = 719;
  error.at_unix_ns = SecondsAgo(5);
  HostSignal again = error;
  again.rank = Rank(1);
  again.at_unix_ns = SecondsAgo(7);
  const Verdict v = Only({error, again});
  EXPECT_EQ(v.finding_class, "error");
  EXPECT_EQ(v.cause, "cuda_error");
  EXPECT_EQ(v.team, "operations");
  EXPECT_THAT(v.ranks, ElementsAre(Rank(1), Rank(3)));
  EXPECT_EQ(v.since_unix_ns, SecondsAgo(7));
  EXPECT_EQ(v.summary, "Ranks 1 and 3 failed in CUDA: CUDA error: unspecified launch failure.");
  EXPECT_EQ(v.evidence[0].text,
            "Rank 3 on node b: CUDA error: unspecified launch failure. (job.log:7)");
}

TEST(LibrarySignalsTest, ErrorsOfTheProgramGoToItsTeam) {
  for (const auto& [code, team] : {std::pair{700, "algorithm"},
                                   {710, "algorithm"},
                                   {2, "algorithm"},
                                   {719, "operations"},
                                   {214, "operations"},
                                   {999, "operations"}}) {
    HostSignal error = Signal(SignalKind::kCudaError, 3, "CUDA error");
    error.code = code;
    EXPECT_EQ(Only({error}).team, team) << code;
  }
}

TEST(LibrarySignalsTest, WhoLostAPeerIsAVictimAndSilentBesidesAReason) {
  HostSignal lost = Signal(SignalKind::kNcclError, 0, "Connection closed by remote peer");
  lost.code = 6;
  const Verdict v = Only({lost});
  EXPECT_FALSE(v.conclusive);
  EXPECT_THAT(v.ranks, IsEmpty());
  EXPECT_THAT(v.victims, ElementsAre(Rank(0)));
  EXPECT_EQ(Only({lost, Signal(SignalKind::kException, 2, "ValueError: x")}).cause,
            "uncaught_exception");
}

TEST(LibrarySignalsTest, SameExceptionOfManyRanksIsOneFinding) {
  std::vector<HostSignal> signals;
  for (uint32_t r = 0; r < 4; ++r) {
    signals.push_back(Signal(SignalKind::kException, r, "ValueError: batch " + std::to_string(r)));
  }
  EXPECT_EQ(Only(signals).ranks.size(), 4u);
  signals.push_back(Signal(SignalKind::kException, 2, "KeyError: 'loss'"));
  EXPECT_EQ(Detect(signals).size(), 2u);
}

TEST(LibrarySignalsTest, CrashOfAnUnknownProcessIsLeftToOthers) {
  HostSignal crash = Signal(SignalKind::kCrash, std::nullopt, "python3[7]: segfault at 0");
  EXPECT_THAT(Detect({crash}), IsEmpty());
  crash.rank = Rank(1);
  crash.code = 11;
  EXPECT_EQ(Only({crash}).cause, "process_crashed");
}

// What hang detection sees itself it can explain better.
TEST(LibrarySignalsTest, TimeOutOfARankWithAnOpenCallAddsNothing) {
  JobBuilder b(4);
  b.job.signals = {Signal(SignalKind::kNcclTimeout, 1, "Watchdog caught")};
  EXPECT_EQ(DetectLibrarySignals(b.job, b.now()).size(), 1u);
  b[1].WaitsIn(kDefaultGroup, 5);
  EXPECT_THAT(DetectLibrarySignals(b.job, b.now()), IsEmpty());
}

TEST(LibrarySignalsTest, DeadProcessesAreOpenAndSilentOnesSuspected) {
  HostSignal silent = Signal(SignalKind::kUnreachable, 3, "does not answer");
  silent.value = 0;
  HostSignal dead = silent;
  dead.rank = Rank(1);
  dead.value = 1;
  const std::vector<Verdict> verdicts = Detect({silent, dead});
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_TRUE(verdicts[0].conclusive);
  EXPECT_THAT(verdicts[0].ranks, ElementsAre(Rank(1)));
  EXPECT_FALSE(verdicts[1].conclusive);
  EXPECT_THAT(verdicts[1].ranks, ElementsAre(Rank(3)));
}

TEST(LibrarySignalsTest, WhatAJobSurvivesIsOfLowSeverityAndCostsNothingKnown) {
  for (const SignalKind kind : {SignalKind::kCollectiveFallback, SignalKind::kGpuDirectOff}) {
    HostSignal signal = Signal(kind, std::nullopt, "no SHARP");
    signal.node = "a";
    const Verdict v = Only({signal});
    EXPECT_FALSE(v.conclusive);
    EXPECT_EQ(v.severity, "low");
    EXPECT_EQ(v.lost_share, 0);
    EXPECT_THAT(v.ranks, IsEmpty());
    EXPECT_THAT(v.nodes, ElementsAre("a"));
  }
}

TEST(LibrarySignalsTest, LongTextsAreCutInTheSummary) {
  const Verdict v = Only({Signal(SignalKind::kException, 1, std::string(5000, 'x'))});
  EXPECT_LT(v.summary.size(), 300u);
  EXPECT_THAT(v.summary, HasSubstr("..."));
}

}  // namespace
}  // namespace flare::diag
