// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/recording_hints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace flare::diag {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kMs = 1'000'000;

// `steps` steps of 100 ms; the device works for `busy_ms` of each.
Job MakeJob(uint32_t steps, uint64_t busy_ms, uint64_t first_step = 5) {
  Job job;
  RankRecord& record = job.ranks[Rank(0)];
  record.recording.emplace();
  for (uint32_t i = 0; i < steps; ++i) {
    RankStep& step = record.steps.emplace_back();
    step.step = StepId(first_step + i);
    step.start_unix_ns = 1'700'000'000'000'000'000 + i * 100 * kMs;
    step.duration_ns = 100 * kMs;
    step.device.emplace().busy_ns = busy_ms * kMs;
  }
  return job;
}

void AddPhase(Job* job, EventKind kind, const std::string& name, uint32_t calls, uint64_t ms,
              size_t step_count = 100) {
  for (RankStep& step : job->ranks.at(Rank(0)).steps) {
    if (step_count-- == 0) return;
    step.phases.push_back({kind, name, calls, ms * kMs, ms * kMs});
  }
}

std::vector<Verdict> Detect(const Job& job) { return DetectInRecording(job, 0); }

TEST(RecordingHintsTest, LoadingInTheTrainingProcessIsProvenByAnIdleDevice) {
  Job job = MakeJob(6, 60);
  AddPhase(&job, EventKind::kDataLoad, "_SingleProcessDataLoaderIter.__next__", 1, 40);
  ASSERT_THAT(Detect(job), SizeIs(1));
  const Verdict verdict = Detect(job)[0];
  EXPECT_EQ(verdict.finding_class, "regression");
  EXPECT_EQ(verdict.cause, "data_loader");
  EXPECT_EQ(verdict.team, "algorithm");
  EXPECT_TRUE(verdict.conclusive);
  EXPECT_THAT(verdict.ranks, IsEmpty());
  EXPECT_THAT(verdict.summary, HasSubstr("loads its data itself, 40 % of each 100 ms step"));
  EXPECT_DOUBLE_EQ(verdict.lost_share, 0.4);
  EXPECT_EQ(verdict.severity, "medium");
}

TEST(RecordingHintsTest, ALoaderThatKeepsUpIsHealthy) {
  Job job = MakeJob(6, 60);
  AddPhase(&job, EventKind::kDataLoad, "_MultiProcessingDataLoaderIter.__next__", 1, 1);
  EXPECT_THAT(Detect(job), IsEmpty());
}

TEST(RecordingHintsTest, ASlowStartOfTheLoaderIsNoPattern) {
  Job job = MakeJob(6, 60);
  AddPhase(&job, EventKind::kDataLoad, "_MultiProcessingDataLoaderIter.__next__", 1, 90, 2);
  EXPECT_THAT(Detect(job), IsEmpty());
}

TEST(RecordingHintsTest, LoadingBesideABusyDeviceLosesNothing) {
  Job job = MakeJob(6, 95);
  AddPhase(&job, EventKind::kDataLoad, "_SingleProcessDataLoaderIter.__next__", 1, 40);
  EXPECT_THAT(Detect(job), IsEmpty());
}

TEST(RecordingHintsTest, TwoStepsOrUnmarkedOnesAreTooLittle) {
  for (Job job : {MakeJob(2, 60), MakeJob(6, 60, kFirstPseudoStep)}) {
    AddPhase(&job, EventKind::kDataLoad, "_SingleProcessDataLoaderIter.__next__", 1, 40);
    EXPECT_THAT(Detect(job), IsEmpty());
  }
}

TEST(RecordingHintsTest, RunningJobsAreNotLookedAt) {
  Job job = MakeJob(6, 60);
  AddPhase(&job, EventKind::kDataLoad, "_SingleProcessDataLoaderIter.__next__", 1, 40);
  job.ranks.at(Rank(0)).recording.reset();
  EXPECT_THAT(Detect(job), IsEmpty());
}

TEST(RecordingHintsTest, ManySynchronisesAreSuspectedByTheirNumber) {
  Job job = MakeJob(6, 60);
  AddPhase(&job, EventKind::kSynchronize, "cudaStreamSynchronize", 500, 20);
  ASSERT_THAT(Detect(job), SizeIs(1));
  EXPECT_EQ(Detect(job)[0].cause, "needless_synchronize");
  EXPECT_FALSE(Detect(job)[0].conclusive);
  // A few that wait for long are the host being ahead of the device.
  Job healthy = MakeJob(6, 60);
  AddPhase(&healthy, EventKind::kSynchronize, "cudaDeviceSynchronize", 3, 90);
  EXPECT_THAT(Detect(healthy), IsEmpty());
}

TEST(RecordingHintsTest, CollectionsAndDriverMemoryInEachStepAreSuspected) {
  Job job = MakeJob(6, 60);
  AddPhase(&job, EventKind::kGc, "", 2, 5);
  AddPhase(&job, EventKind::kUserCall, "cudaFree", 4, 5);
  AddPhase(&job, EventKind::kUserCall, "forward", 1, 50);
  EXPECT_THAT(Detect(job), ElementsAre(Field(&Verdict::cause, "python_gc"),
                                       Field(&Verdict::cause, "memory_management")));
}

}  // namespace
}  // namespace flare::diag
