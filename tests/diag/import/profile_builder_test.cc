// SPDX-License-Identifier: Apache-2.0
#include "diag/import/profile_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace flare::import {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kGemm[] = "ampere_sgemm_128x64_nn";
constexpr char kAllReduce[] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)";

DeviceActivity At(int64_t begin_us, int64_t us, uint64_t correlation = 0, uint64_t stream = 7) {
  return {begin_us * 1000, us * 1000, 0, stream, correlation, 0};
}

constexpr uint64_t Us(uint64_t us) { return us * 1000; }

TEST(ProfileBuilderTest, UnionsCountSideBySideKernelsOnce) {
  ProfileBuilder builder;
  builder.AddKernel(kGemm, At(100, 50));
  builder.AddKernel(kGemm, At(120, 50, 0, 8));       // 100-170 computing
  builder.AddKernel(kAllReduce, At(150, 40, 0, 9));  // 20 of 40 beside computing
  builder.AddMemoryOperation(At(300, 10, 0, 10));
  const Profile profile = builder.Build(0);
  ASSERT_EQ(profile.steps.size(), 1u);
  EXPECT_TRUE(profile.pseudo_steps);
  const diag::DeviceStep& device = *profile.steps[0].device;
  EXPECT_EQ(device.kernels, 3u);
  EXPECT_EQ(device.communication_kernels, 1u);
  EXPECT_EQ(device.memory_operations, 1u);
  EXPECT_EQ(device.streams, 4u);
  EXPECT_EQ(device.span_ns, Us(210));
  EXPECT_EQ(device.busy_ns, Us(100));
  EXPECT_EQ(device.compute_ns, Us(70));
  EXPECT_EQ(device.communication_ns, Us(40));
  EXPECT_EQ(device.overlap_ns, Us(20));
  EXPECT_EQ(device.memory_ns, Us(10));
  EXPECT_EQ(profile.device.busy_ns, device.busy_ns);
}

TEST(ProfileBuilderTest, AStepOwnsWhatWasLaunchedInItHoweverLateItRuns) {
  ProfileBuilder builder;
  builder.AddStep(4, 0, Us(100));
  builder.AddStep(5, Us(100), Us(200));
  builder.AddKernel(kGemm, At(90, 50, 11));   // launched in step 4, runs into step 5
  builder.AddKernel(kGemm, At(150, 10, 12));  // launched in step 4, runs in step 5
  builder.AddKernel(kGemm, At(175, 5, 13));   // launched in step 5
  builder.AddLaunch(13, Us(120), false);
  builder.AddLaunch(11, Us(20), false);
  builder.AddLaunch(12, Us(99), false);
  const Profile profile = builder.Build(0);
  ASSERT_EQ(profile.steps.size(), 2u);
  EXPECT_EQ(profile.steps[0].step, StepId(4));
  EXPECT_EQ(profile.steps[0].device->kernels, 2u);
  EXPECT_EQ(profile.steps[1].device->kernels, 1u);
  EXPECT_EQ(profile.steps[1].device->inter_step_ns, Us(15));
  EXPECT_NEAR(profile.steps[1].device->compute_issue_latency.Quantile(1), Us(55), 0.01 * Us(55));
  EXPECT_EQ(profile.device.compute_issue_latency.count(), 3u);
}

TEST(ProfileBuilderTest, StepTimeIsStartToStartAndTheLastEndsWithItsMark) {
  ProfileBuilder builder;
  builder.AddStep(8, Us(130), Us(220));
  builder.AddStep(7, 0, Us(100));
  builder.AddStep(7, Us(1), Us(90));  // the same step on another thread
  const Profile profile = builder.Build(1'700'000'000'000'000'000);
  ASSERT_EQ(profile.steps.size(), 2u);
  EXPECT_EQ(profile.steps[0].duration_ns, Us(130));
  EXPECT_EQ(profile.steps[1].duration_ns, Us(90));
  EXPECT_EQ(profile.steps[1].start_unix_ns, 1'700'000'000'000'130'000u);
  EXPECT_FALSE(profile.pseudo_steps);
}

TEST(ProfileBuilderTest, WorkOutsideOfStepsIsInTheWholeAndSaid) {
  ProfileBuilder builder;
  builder.AddStep(1, Us(100), Us(200));
  builder.AddKernel(kGemm, At(10, 5));
  builder.AddKernel(kGemm, At(110, 5));
  const Profile profile = builder.Build(0);
  EXPECT_EQ(profile.steps[0].device->kernels, 1u);
  EXPECT_EQ(profile.device.kernels, 2u);
  EXPECT_THAT(profile.notes, ElementsAre(HasSubstr("launched outside of the marked steps")));
}

TEST(ProfileBuilderTest, KernelsOfOneGraphShareItsLaunch) {
  ProfileBuilder builder;
  builder.AddLaunch(5, Us(10), true);
  for (int i = 0; i < 4; ++i) builder.AddKernel(kGemm, At(20 + 10 * i, 5, 5));
  const Profile profile = builder.Build(0);
  EXPECT_EQ(profile.device.compute_issue_latency.count(), 4u);
}

// More launches than are kept unmatched: kernels that come before and after the matching both find
// theirs.
TEST(ProfileBuilderTest, LaunchesFindTheirKernelsAcrossMatchings) {
  constexpr uint64_t kCount = (uint64_t{1} << 20) + 5000;
  ProfileBuilder builder;
  builder.AddLaunch(kCount + 1, 0, true);
  for (uint64_t i = 1; i <= kCount; ++i) {
    const auto begin = static_cast<int64_t>(i);
    if (i % 1000 == 0) builder.AddKernel(kGemm, {begin * 100 + 7, 1, 0, 0, i, 0});
    builder.AddLaunch(i, begin * 100, false);
  }
  builder.AddKernel(kGemm, {8, 1, 0, 0, kCount + 1, 0});
  builder.AddKernel(kGemm, {20, 1, 0, 0, kCount + 1, 0});
  const Profile profile = builder.Build(0);
  EXPECT_EQ(profile.device.compute_issue_latency.count(), kCount / 1000 + 2);
  EXPECT_EQ(profile.device.compute_issue_latency.sum(), 7 * (kCount / 1000) + 8 + 20);
}

TEST(ProfileBuilderTest, CommunicationBesideAProductCountsForIt) {
  ProfileBuilder builder;
  const uint32_t shape = builder.GemmShape(1, 64, 128, 32, DataType::kFloat16);
  DeviceActivity first = At(100, 100), second = At(300, 100);
  first.tag = second.tag = shape;
  builder.AddKernel(kGemm, first);
  builder.AddKernel(kAllReduce, At(150, 20, 0, 9));   // inside the first
  builder.AddKernel(kAllReduce, At(160, 60, 0, 10));  // reaches past its end
  builder.AddKernel(kAllReduce, At(280, 50, 0, 9));   // began before the second
  builder.AddKernel(kGemm, second);
  const Profile profile = builder.Build(0);
  ASSERT_EQ(profile.device.gemms.size(), 1u);
  const diag::GemmTotals& gemm = profile.device.gemms[0];
  EXPECT_EQ(gemm.count, 2u);
  EXPECT_EQ(gemm.n, 128u);
  EXPECT_EQ(gemm.total_ns, Us(200));
  EXPECT_EQ(gemm.overlapped_ns, Us(50 + 30));
}

TEST(ProfileBuilderTest, CollectivesKeepTheirDurationsBySequence) {
  ProfileBuilder builder;
  builder.AddStep(0, 0, Us(1000));
  const CommId comm(9);
  const auto call = [&](uint64_t sequence, int64_t begin_us, int64_t us) {
    builder.AddCollective({comm, sequence, Operation::kAllReduce, DataType::kFloat32, 100,
                           begin_us * 1000, us * 1000, kUnknownTime});
  };
  for (uint64_t s = 0; s < 200; ++s) call(1000 + s, static_cast<int64_t>(s), 3);
  call(1000, 500, 1);               // a second kernel of the first call
  call(1202, 300, 5);               // a short gap
  call(uint64_t{1} << 63, 400, 6);  // and a wide one
  const Profile profile = builder.Build(0);
  const auto& communicators = profile.steps[0].communicators;
  ASSERT_EQ(communicators.size(), 2u);
  EXPECT_EQ(communicators[0].first_sequence, 1000u);
  EXPECT_EQ(communicators[0].count, 201u);
  ASSERT_EQ(communicators[0].duration_us.size(), 203u);
  EXPECT_EQ(communicators[0].duration_us[0], 501u);
  EXPECT_EQ(communicators[0].duration_us[199], 3u);
  EXPECT_EQ(communicators[0].duration_us[200], 0u);
  EXPECT_EQ(communicators[1].first_sequence, uint64_t{1} << 63);
  EXPECT_THAT(communicators[1].duration_us, ElementsAre(6u));
  EXPECT_EQ(profile.steps[0].communication_ns, Us(202 + 5 + 6 + 1));
}

TEST(ProfileBuilderTest, SendsAndReceivesCountInTotalsOnly) {
  ProfileBuilder builder;
  builder.AddCollective(
      {CommId(1), 5, Operation::kSend, DataType::kFloat16, 64, 0, 1000, kUnknownTime});
  const Profile profile = builder.Build(0);
  const diag::CommunicatorStep& comm = profile.steps[0].communicators[0];
  EXPECT_EQ(comm.count, 0u);
  EXPECT_THAT(comm.duration_us, IsEmpty());
  EXPECT_EQ(comm.operations[0].bytes, 64u);
}

// The root of a broadcast may be done before anybody else came: its short duration is no late
// arrival.
TEST(ProfileBuilderTest, DurationsOfRootedCollectivesAreNotObserved) {
  ProfileBuilder builder;
  builder.AddCollective(
      {CommId(1), 5, Operation::kBroadcast, DataType::kFloat16, 64, 0, 9000, kUnknownTime});
  builder.AddCollective(
      {CommId(1), 6, Operation::kAllGather, DataType::kFloat16, 64, 10000, 9000, kUnknownTime});
  const Profile profile = builder.Build(0);
  EXPECT_EQ(profile.steps[0].communicators[0].count, 2u);
  EXPECT_THAT(profile.steps[0].communicators[0].duration_us, ElementsAre(0u, 9u));
  ASSERT_EQ(profile.collective_ends.size(), 1u);
  EXPECT_EQ(profile.collective_ends[0].sequence, 6u);
  EXPECT_EQ(profile.collective_ends[0].at_unix_ns, 19'000u);
}

TEST(ProfileBuilderTest, SpansBecomePhasesOfTheirStep) {
  ProfileBuilder builder;
  builder.AddStep(1, 0, Us(100));
  builder.AddStep(2, Us(100), Us(200));
  builder.AddSpan(EventKind::kDataLoad, "next", Us(10), Us(20));
  builder.AddSpan(EventKind::kDataLoad, "next", Us(50), Us(5));
  builder.AddSpan(EventKind::kOptimizer, "Adam", Us(180), Us(15));
  const Profile profile = builder.Build(0);
  ASSERT_EQ(profile.steps[0].phases.size(), 1u);
  EXPECT_EQ(profile.steps[0].phases[0].count, 2u);
  EXPECT_EQ(profile.steps[0].phases[0].total_ns, Us(25));
  EXPECT_EQ(profile.steps[0].phases[0].longest_ns, Us(20));
  EXPECT_EQ(profile.steps[1].phases[0].name, "Adam");
}

TEST(ProfileBuilderTest, ImpossibleTimesAreLeftOutAndSaid) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  ProfileBuilder builder;
  builder.AddKernel(kGemm, {0, -5, 0, 0, 0, 0});
  builder.AddKernel(kGemm, {kMax, kMax, 0, 0, 0, 0});
  builder.AddSpan(EventKind::kGc, "", kMin, 1);
  builder.AddStep(1, Us(5), 0);
  builder.AddStep(diag::kFirstPseudoStep, 0, 1);
  builder.AddKernel(kGemm, At(1, 1));
  const Profile profile = builder.Build(0);
  EXPECT_EQ(profile.device.kernels, 1u);
  EXPECT_THAT(profile.notes, ElementsAre("1 event with an impossible step number left out",
                                         "4 events with an impossible time or duration left out"));
}

TEST(ProfileBuilderTest, OnlyTheLastStepsAreKept) {
  ProfileBuilder builder;
  constexpr uint64_t kSteps = kMostSteps + 44;
  for (uint64_t i = 0; i < kSteps; ++i) {
    builder.AddStep(i, static_cast<int64_t>(Us(i)), static_cast<int64_t>(Us(i + 1)));
    builder.AddKernel(kGemm, {static_cast<int64_t>(Us(i)) + 1, 100, 0, 0, 0, 0});
  }
  const Profile profile = builder.Build(0);
  ASSERT_EQ(profile.steps.size(), kMostSteps);
  EXPECT_EQ(profile.steps.front().step, StepId(44));
  EXPECT_EQ(profile.device.kernels, kSteps);
}

TEST(ProfileBuilderTest, AnEmptyProfileHasNoSteps) {
  ProfileBuilder builder;
  EXPECT_TRUE(builder.empty());
  EXPECT_THAT(builder.Build(0).steps, IsEmpty());
}

}  // namespace
}  // namespace flare::import
