// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "diag/detect/detector_list.h"
#include "diag/import/importer.h"
#include "diag/import/join.h"
#include "tests/diag/import/recorded.h"

// What the detectors say about recorded profiles, after import and join: what is known to be wrong
// in them, and nothing else.
namespace flare::import {
namespace {

using diag::Verdict;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> FilesIn(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(prefix))
      files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct Diagnosis {
  JoinedJob job;
  std::vector<Verdict> verdicts;
};

Diagnosis Diagnose(const std::vector<std::string>& files) {
  std::vector<Fragment> fragments;
  for (const std::string& file : files) {
    Result<Fragment> fragment = ImportFile(file, "");
    EXPECT_TRUE(fragment.ok()) << fragment.status().message();
    if (fragment.ok()) fragments.push_back(std::move(fragment).value());
  }
  std::vector<JoinedJob> jobs = JoinFragments(std::move(fragments));
  EXPECT_THAT(jobs, SizeIs(1));
  Diagnosis diagnosis;
  if (jobs.empty()) return diagnosis;
  diagnosis.job = std::move(jobs[0]);
  diagnosis.verdicts = diag::RunDetectors(diagnosis.job.job, diagnosis.job.now_unix_ns);
  return diagnosis;
}

// Derived truth: ranks 0 and 6 are last to 32 and 28 of 84 collectives, computing is equal, their
// devices idle. Whoever says "slow GPU" here is wrong.
TEST(RecordedVerdictsTest, MegatronRanksThatLaunchLateAreSuspectedAsHostBound) {
  SKIP_WITHOUT_RECORDED_FILES();
  const std::string folder = Recorded("astra-sim/megatron-tp8-8xA100");
  const Diagnosis diagnosis = Diagnose(FilesIn(folder, "kineto-"));
  EXPECT_THAT(diagnosis.job.job.ranks, SizeIs(8));
  ASSERT_THAT(diagnosis.verdicts, SizeIs(1));
  const Verdict& verdict = diagnosis.verdicts[0];
  EXPECT_THAT(verdict.ranks, ElementsAre(Rank(0), Rank(6)));
  EXPECT_EQ(verdict.finding_class, "fail_slow");
  EXPECT_EQ(verdict.cause, "cpu_contention");
  EXPECT_FALSE(verdict.conclusive);
  EXPECT_THAT(verdict.summary, HasSubstr("host launches late"));
  ASSERT_FALSE(verdict.evidence.empty());
  EXPECT_EQ(verdict.evidence[0].metric, "collectives_last");
  EXPECT_NEAR(*verdict.evidence[0].value, 32, 2);
}

// Derived: rank 7 is last to 5 of 8 collectives, which chance alone gives any of eight ranks once
// in a hundred such recordings; most of the wait is in a single all-to-all. That is no proof of
// anything.
TEST(RecordedVerdictsTest, DlrmIsTooShortForAnyVerdict) {
  SKIP_WITHOUT_RECORDED_FILES();
  const std::string folder = Recorded("param/dlrm-8xV100");
  EXPECT_THAT(Diagnose(FilesIn(folder, "kineto-")).verdicts, IsEmpty());
}

// The origin removed events at random: the collectives of the two ranks do not pair.
TEST(RecordedVerdictsTest, SampledTracesAreNotCompared) {
  SKIP_WITHOUT_RECORDED_FILES();
  const std::string folder = Recorded("hta");
  const Diagnosis diagnosis = Diagnose(FilesIn(folder, "sampled-"));
  EXPECT_THAT(diagnosis.job.notes,
              testing::Contains(HasSubstr("do not end with those of the others")));
  EXPECT_THAT(diagnosis.verdicts, IsEmpty());
}

TEST(RecordedVerdictsTest, DataLoadingOnTheMainProcessIsFoundAndItsTwinIsHealthy) {
  SKIP_WITHOUT_RECORDED_FILES();
  const std::string slow = Recorded("kineto/resnet50-num_workers_0-a.json.gz");
  const std::string healthy = Recorded("kineto/resnet50-num_workers_4-a.json.gz");
  const Diagnosis diagnosis = Diagnose({slow});
  ASSERT_THAT(diagnosis.verdicts, SizeIs(1));
  EXPECT_EQ(diagnosis.verdicts[0].finding_class, "regression");
  EXPECT_EQ(diagnosis.verdicts[0].cause, "data_loader");
  EXPECT_TRUE(diagnosis.verdicts[0].conclusive);
  EXPECT_NEAR(*diagnosis.verdicts[0].evidence.at(0).value, 0.40, 0.02);
  EXPECT_THAT(Diagnose({healthy}).verdicts, IsEmpty());
}

TEST(RecordedVerdictsTest, SlowWorkerOfAPipelineIsNamed) {
  SKIP_WITHOUT_RECORDED_FILES();
  const std::string file = Recorded("straggler-analysis/timeline-AR.json.gz");
  const Diagnosis diagnosis = Diagnose({file});
  ASSERT_THAT(diagnosis.verdicts, SizeIs(1));
  EXPECT_EQ(diagnosis.verdicts[0].cause, "compute_slow");
  EXPECT_THAT(diagnosis.verdicts[0].ranks, ElementsAre(Rank(0)));
  // A timeline has no CPU time, without which a burdened machine looks the same.
  EXPECT_FALSE(diagnosis.verdicts[0].conclusive);
}

TEST(RecordedVerdictsTest, HeavyStageOfAPipelineIsImbalanceAndNoSlowWorker) {
  SKIP_WITHOUT_RECORDED_FILES();
  const std::string file = Recorded("straggler-analysis/timeline-ST.json.gz");
  const Diagnosis diagnosis = Diagnose({file});
  ASSERT_THAT(diagnosis.verdicts, SizeIs(1));
  EXPECT_EQ(diagnosis.verdicts[0].cause, "load_imbalance");
  EXPECT_THAT(diagnosis.verdicts[0].ranks, ElementsAre(Rank(6), Rank(7)));
}

// No anomaly is claimed of any of these: an open finding would be a false alarm.
TEST(RecordedVerdictsTest, OtherProfilesHaveNoOpenFinding) {
  SKIP_WITHOUT_RECORDED_FILES();
  for (const char* folder : {"param", "hta", "kineto", "tracelens"}) {
    const std::string root = Recorded(folder);
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      const std::string path = entry.path().string();
      if (!path.ends_with(".json.gz") || path.find("num_workers_0") != std::string::npos) continue;
      Result<Fragment> fragment = ImportFile(path, "");
      if (!fragment.ok()) continue;  // kineto_traces_test.cc knows which
      std::vector<Fragment> fragments;
      fragments.push_back(std::move(fragment).value());
      for (const JoinedJob& job : JoinFragments(std::move(fragments))) {
        const std::vector<Verdict> verdicts = diag::RunDetectors(job.job, job.now_unix_ns);
        EXPECT_THAT(verdicts, Each(Field(&Verdict::conclusive, false))) << path;
        for (const Verdict& verdict : verdicts) {
          ADD_FAILURE() << path << ": " << verdict.cause << ": " << verdict.summary;
        }
      }
    }
  }
}

}  // namespace
}  // namespace flare::import
