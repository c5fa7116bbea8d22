// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/job_name.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace flare::cli {
namespace {

constexpr uint64_t kTime = 1'773'496'802'000'000'000;  // 2026-03-14 14:00:02 UTC

TEST(JobNameTest, IsThatOfTheScript) {
  EXPECT_EQ(NameOfCommand({"torchrun", "--nproc-per-node", "4", "src/train.py", "x.py"}), "train");
  EXPECT_EQ(NameOfCommand({"python", "-m", "my.trainer"}), "my.trainer");
  EXPECT_EQ(NameOfCommand({"/usr/bin/sleep", "1"}), "sleep");
  EXPECT_EQ(NameOfCommand({"dir/"}), "job");
  EXPECT_EQ(NameOfCommand({}), "job");
}

TEST(JobNameTest, IdIsAFileNameThatFitsTheSegment) {
  EXPECT_EQ(MakeJobId("train", kTime, 0x1abcdef), "train-20260314-140002-abcdef");
  EXPECT_EQ(MakeJobId("../a b/\n", kTime, 1), "job.._a_b__-20260314-140002-000001");
  EXPECT_EQ(MakeJobId("", kTime, 1), "job-20260314-140002-000001");
  EXPECT_LE(MakeJobId(std::string(500, 'x'), kTime, 1).size(), 63u);
  EXPECT_LE(MakeJobId("-" + std::string(500, 'x'), kTime, 1).size(), 63u);
}

class InheritedJobIdTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"FLARE_JOB", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_NTASKS", "SLURM_PROCID"}) {
      unsetenv(name);
    }
  }
  void TearDown() override { SetUp(); }
};

TEST_F(InheritedJobIdTest, TasksOfOneSlurmStepShareIt) {
  EXPECT_EQ(InheritedJobId(), "");
  setenv("SLURM_JOB_ID", "77", 1);
  setenv("SLURM_STEP_ID", "0", 1);
  EXPECT_EQ(InheritedJobId(), "");  // a batch script: each of its runs is a job
  setenv("SLURM_NTASKS", "2", 1);
  setenv("SLURM_PROCID", "1", 1);
  EXPECT_EQ(InheritedJobId(), "77.0");
  setenv("FLARE_JOB", "mine", 1);
  EXPECT_EQ(InheritedJobId(), "mine");
}

TEST_F(InheritedJobIdTest, UnfitForAFileNameIsNotTaken) {
  for (const std::string id : {"../x", "a/b", ".x", "a b", "\x1b[2J"}) {
    setenv("FLARE_JOB", id.c_str(), 1);
    EXPECT_EQ(InheritedJobId(), "");
  }
  setenv("FLARE_JOB", std::string(64, 'x').c_str(), 1);
  EXPECT_EQ(InheritedJobId(), "");
}

}  // namespace
}  // namespace flare::cli
