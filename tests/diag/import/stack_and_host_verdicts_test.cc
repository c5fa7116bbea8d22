// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "diag/detect/detector_list.h"
#include "diag/import/join.h"
#include "tests/diag/import/read_text.h"
#include "tests/diag/import/recorded.h"

// What all detectors say of recorded stacks and logs, against what their origins state.
namespace flare::import {
namespace {

using diag::Verdict;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Said {
  diag::Job job;
  std::vector<Verdict> verdicts;
};

Said Diagnose(const std::string& name) {
  Result<Fragment> fragment = ImportFile(Recorded(name), "");
  EXPECT_TRUE(fragment.ok()) << fragment.status().message();
  if (!fragment.ok()) return {};
  std::vector<Fragment> fragments;
  fragments.push_back(std::move(*fragment));
  std::vector<JoinedJob> jobs = JoinFragments(std::move(fragments));
  EXPECT_EQ(jobs.size(), 1u);
  if (jobs.size() != 1) return {};
  Said said;
  said.verdicts = diag::RunDetectors(jobs[0].job, jobs[0].now_unix_ns);
  said.job = std::move(jobs[0].job);
  return said;
}

#define EXPECT_ONE_VERDICT(said, cls, id, who)    \
  ASSERT_EQ(said.verdicts.size(), 1u);            \
  EXPECT_EQ(said.verdicts[0].finding_class, cls); \
  EXPECT_EQ(said.verdicts[0].cause, id);          \
  EXPECT_EQ(said.verdicts[0].team, who)

TEST(StackAndHostVerdictsTest, BloomReproductionBlamesTheDataLoaderOfOneProcess) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Said said = Diagnose("bigscience-bloom/2022-04-30-eval-hang-2node-repro.pyspy.txt");
  EXPECT_ONE_VERDICT(said, "hang", "data_loader_stall", "algorithm");
  ASSERT_EQ(said.verdicts[0].ranks.size(), 1u);
  EXPECT_EQ(said.job.ranks.at(said.verdicts[0].ranks[0]).pid, 688514);
  EXPECT_EQ(said.verdicts[0].victims.size(), 15u);
  EXPECT_FALSE(said.verdicts[0].conclusive);  // one look
}

TEST(StackAndHostVerdictsTest, BloomAt384GpusBlamesTheSame) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Said said = Diagnose("bigscience-bloom/2022-05-18-eval-hang-384gpu.pyspy.txt");
  EXPECT_ONE_VERDICT(said, "hang", "data_loader_stall", "algorithm");
  ASSERT_EQ(said.verdicts[0].ranks.size(), 1u);
  EXPECT_EQ(said.job.ranks.at(said.verdicts[0].ranks[0]).pid, 1439102);
}

// Six of eight ranks are said to have left the step and two to wait in broadcast; why was never
// found. The file shows one stack of each, and no call of communication in the first.
TEST(StackAndHostVerdictsTest, HangWithoutKnownCauseBlamesNobody) {
  SKIP_WITHOUT_RECORDED_FILES();
  for (const Verdict& verdict :
       Diagnose("bigscience-bloom/2022-prequel-train_step-hang.pyspy.txt").verdicts) {
    EXPECT_EQ(verdict.cause, "cause_not_found");
    EXPECT_THAT(verdict.ranks, IsEmpty());
  }
}

// The hang was made on rank 6. Its stack shows it alone in a barrier; that it made a call too many,
// and did not merely come first, no stack can tell. So it is pointed at and not blamed, and ranks
// 3, 4, 5 and 7, which show nothing but their own code, are left alone.
TEST(StackAndHostVerdictsTest, RankAloneInABarrierIsPointedAt) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Said said = Diagnose("dlrover/rank6_not_in_hang_py.svg.gz");
  EXPECT_ONE_VERDICT(said, "hang", "cause_not_found", "operations");
  EXPECT_THAT(said.verdicts[0].ranks, IsEmpty());
  EXPECT_THAT(said.verdicts[0].summary,
              AllOf(HasSubstr("Rank 6 stands alone in barrier, called from fake_hang "
                              "(p2p_communication.py:241)"),
                    HasSubstr("3 others wait")));
}

TEST(StackAndHostVerdictsTest, WatchdogOfDevicesBlamesNobody) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Said all = Diagnose("dlrover/hang-xpu_timer_metric_all.gz");
  EXPECT_ONE_VERDICT(all, "hang", "cause_not_found", "operations");
  EXPECT_EQ(all.verdicts[0].victims.size(), 8u);
  const Said some = Diagnose("dlrover/hang-xpu_timer_metric_some.gz");
  EXPECT_ONE_VERDICT(some, "hang", "cause_not_found", "operations");
  EXPECT_THAT(some.verdicts[0].victims, ElementsAre(Rank(0), Rank(2), Rank(5)));
  EXPECT_LT(some.verdicts[0].confidence, all.verdicts[0].confidence);
  EXPECT_THAT(Diagnose("dlrover/normal-xpu_timer_metric_0.gz").verdicts, IsEmpty());
}

TEST(StackAndHostVerdictsTest, ApplicationFaultsAreNoFaultOfTheGpu) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Said said = Diagnose("gpud/dmesg.decode.iso.log.0.gz");
  EXPECT_ONE_VERDICT(said, "error", "gpu_xid", "algorithm");
  EXPECT_TRUE(said.verdicts[0].conclusive);
  EXPECT_THAT(said.verdicts[0].summary,
              AllOf(HasSubstr("(Xid 13), 629 times"), HasSubstr("(Xid 43), 7 times"),
                    HasSubstr("The program did this, not the GPU")));
}

TEST(StackAndHostVerdictsTest, HardwareFaultsAreThoseOfTheFiles) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Said gsp = Diagnose("gpud/dmesg-with-xid-119.log.gz");
  EXPECT_ONE_VERDICT(gsp, "error", "gpu_xid", "operations");
  EXPECT_THAT(gsp.verdicts[0].summary, HasSubstr("(Xid 119), 5 times"));
  const Said memory = Diagnose("gpud/dmesg-time-format-iso.log.gz");
  EXPECT_ONE_VERDICT(memory, "error", "ecc_error", "operations");
  EXPECT_THAT(memory.verdicts[0].summary,
              AllOf(HasSubstr("(Xid 48)"), HasSubstr("(Xid 94), 9 times"), HasSubstr("(Xid 63)")));
  const Said links = Diagnose("azhpc-diagnostics/nvlink.bad.out");
  EXPECT_ONE_VERDICT(links, "error", "stuck_link", "operations");
  EXPECT_THAT(links.verdicts[0].links, ElementsAre("GPU 3", "GPU 4", "GPU 5", "GPU 6"));
  const Said pages = Diagnose("azurehpc-health-checks/bad_nvsmi8_output.txt");
  EXPECT_ONE_VERDICT(pages, "error", "ecc_error", "operations");
  for (const Said* said : {&gsp, &memory, &links, &pages}) {
    EXPECT_TRUE(said->verdicts[0].conclusive);
  }
}

TEST(StackAndHostVerdictsTest, FlapsAndCrashesAreThoseOfTheFiles) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Said flap = Diagnose("azurehpc-health-checks/1dev_6flap_syslog");
  EXPECT_ONE_VERDICT(flap, "fail_slow", "network_degraded", "operations");
  EXPECT_THAT(flap.verdicts[0].links, ElementsAre("ib6"));
  EXPECT_THAT(flap.verdicts[0].summary, HasSubstr("lost its carrier 6 times"));
  const Said crash = Diagnose("gpud/nccl-dmesg.decode.iso.log");
  EXPECT_ONE_VERDICT(crash, "error", "process_crashed", "operations");
  EXPECT_THAT(crash.verdicts[0].summary, HasSubstr("libnccl.so.2"));
}

// All three files have ports that are down. In the first these are three of four ports of a model
// of which only one is in use: nobody cabled them. In the others two of eight are, and the origin
// calls such a node degraded when it wants all eight: they stand out, and may still be meant.
TEST(StackAndHostVerdictsTest, PortThatIsDownIsSuspectedOnlyAmongPortsThatAreUp) {
  SKIP_WITHOUT_RECORDED_FILES();
  EXPECT_THAT(Diagnose("gpud/ibstat.47.0.h100.some.down.0.gz").verdicts, IsEmpty());
  for (const char* name : {"gpud/ibstat.47.0.h100.some.down.1.gz",
                           "gpud/ibstat.47.0.h100.some.down.with.polling.1.gz"}) {
    const Said said = Diagnose(name);
    EXPECT_ONE_VERDICT(said, "fail_slow", "nic_degraded", "operations");
    EXPECT_FALSE(said.verdicts[0].conclusive);
    EXPECT_THAT(said.verdicts[0].links, ElementsAre("mlx5_11 port 1", "mlx5_5 port 1"));
  }
}

TEST(StackAndHostVerdictsTest, HealthyFilesAreSilent) {
  SKIP_WITHOUT_RECORDED_FILES();
  const std::string exporter = "nvidia_gpu_exporter/linux-x86_64__nvidia-";
  std::vector<std::string> names = {
      "gpud/ibstat.47.0.a100.all.active.0",
      "gpud/ibstat.47.0.h100.all.active.1.gz",
      "gpud/nvidia-smi.nvlink.status.a100",
      "gpud/nvidia-smi.550.90.07.out.0.valid.gz",
      "gpud/nvidia-smi-query.535.154.05.out.0.valid.4090.gz",  // idle
      "gpud/nvidia-smi-query.535.154.05.out.1.valid.gz",       // busy, at their power cap
      "gpud/dmesg.decode.iso.log.1.gz",                        // a boot with ports without cable
      "gpud/sys-class-infiniband-h100.0.tar.gz",  // error counters since the driver was loaded
      "gpud/dmesg.peermem.log.0",
      "azurehpc-health-checks/0flap_syslog",
      "azurehpc-health-checks/orig_nvsmi8_output.txt",
      "azhpc-diagnostics/nvidia-smi-q.out.gz",
      "azhpc-diagnostics/journald.log.gz"};
  for (const char* gpu : {"h100-80gb-hbm3__590.48.01", "h100-mig__590.48.01", "h200__590.48.01",
                          "h200-mig__590.48.01", "l40s__595.80"}) {
    for (const char* what : {".txt.gz", "__idle.metrics.gz", "__load.metrics.gz"}) {
      names.push_back(exporter + gpu + what);
    }
  }
  for (const std::string& name : names) EXPECT_THAT(Diagnose(name).verdicts, IsEmpty()) << name;
}

}  // namespace
}  // namespace flare::import
