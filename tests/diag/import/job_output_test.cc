// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/diag/import/import_testing.h"

// What PyTorch and torchrun write when a job fails. The texts follow their formats.
namespace flare::import {
namespace {

using diag::SignalKind;
using diag::Verdict;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string TimedOut(int rank, int sequence) {
  const std::string r = std::to_string(rank);
  return "[rank" + r + "]:[E1013 12:34:56.789123456 ProcessGroupNCCL.cpp:629] [Rank " + r +
         "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" +
         std::to_string(sequence) +
         ", OpType=ALLREDUCE, NumelIn=4194304, NumelOut=4194304, Timeout(ms)=600000) ran for "
         "600029 "
         "milliseconds before timing out.\n";
}

std::string Counts(int rank, int enqueued, int completed) {
  const std::string r = std::to_string(rank);
  return "[rank" + r +
         "]:[E1013 12:34:57.1 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank " + r +
         "] Exception (either an error or timeout) detected by watchdog at work: 118, last "
         "enqueued NCCL work: " +
         std::to_string(enqueued) + ", last completed NCCL work: " + std::to_string(completed) +
         ".\n";
}

TEST(JobOutputTest, WatchdogsOfAllRanksTellWhoWasMissing) {
  std::string log;
  for (int rank : {0, 1, 3}) log += TimedOut(rank, 118) + Counts(rank, 118, 117);
  log +=
      "[rank2]:[E1013 12:34:57.2 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 2] "
      "Received a dump signal due to a collective timeout from rank 0 and we will try our best to "
      "dump the debug info. Last enqueued NCCL work: 117, last completed NCCL work: 117.\n";
  const JoinedJob joined = Join({{"job.log", log}});
  const Verdict v = OnlyVerdict(joined);
  EXPECT_EQ(v.finding_class, "hang");
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(2));
  EXPECT_THAT(Numbers(v.victims), ElementsAre(0, 1, 3));
  EXPECT_THAT(v.summary, HasSubstr("in all-reduce #118 of group default_pg for at least 10 min"));
  EXPECT_TRUE(Opens(v, joined));
}

TEST(JobOutputTest, OneWatchdogAloneBlamesNobody) {
  const JoinedJob joined = Join({{"job.log", TimedOut(0, 118)}});
  const Verdict v = OnlyVerdict(joined);
  EXPECT_EQ(v.cause, "cause_not_found");
  EXPECT_THAT(v.ranks, IsEmpty());
  EXPECT_THAT(Numbers(v.victims), ElementsAre(0));
  EXPECT_TRUE(Opens(v, joined));
}

// Before PyTorch 2.0 there was no number: that there was a hang is all that can be said.
TEST(JobOutputTest, OldWatchdogTellsATimeOutOnly) {
  const JoinedJob joined =
      Join({{"job.log",
             "[E ProcessGroupNCCL.cpp:566] [Rank 3] Watchdog caught collective operation timeout: "
             "WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1802710 milliseconds before "
             "timing "
             "out.\n"}});
  const Verdict v = OnlyVerdict(joined);
  EXPECT_EQ(v.finding_class, "hang");
  EXPECT_TRUE(v.conclusive);
  EXPECT_THAT(v.ranks, IsEmpty());
  EXPECT_THAT(Numbers(v.victims), ElementsAre(3));
}

TEST(JobOutputTest, DesyncReportNamesTheRankThatDidNotJoin) {
  const JoinedJob joined = Join({{"job.log", TimedOut(0, 118) + TimedOut(1, 118) +
                                                 "\t - [2] finished collective #117, but didn't "
                                                 "join collective #118 (count from 1)\n"}});
  EXPECT_THAT(Numbers(OnlyVerdict(joined).ranks), ElementsAre(2));
}

TEST(JobOutputTest, PlaceInASmallerGroupIsNotTakenForTheRank) {
  const std::string text =
      "[PG ID 4 PG GUID 7(tp) Rank 1] Watchdog caught collective operation timeout: "
      "WorkNCCL(SeqNum=5, OpType=ALLREDUCE, Timeout(ms)=1000) ran for 1001 milliseconds\n";
  EXPECT_THAT(Import({"job.log", text}).ranks, IsEmpty());
  const Fragment told = Import({"job.log", "[rank5]:" + text});
  ASSERT_EQ(told.ranks.size(), 1u);
  EXPECT_EQ(told.ranks[0].rank, Rank(5));
  EXPECT_EQ(told.ranks[0].record.state.communicators[0].group_rank, 1u);
}

TEST(JobOutputTest, WatchdogThatHangsItselfIsSuspected) {
  const JoinedJob joined = Join(
      {{"job.log",
        "[rank3]:[E1013 12:34:57.2 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 3] "
        "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in "
        "monitoring "
        "enqueued collectives.\n"}});
  const Verdict v = OnlyVerdict(joined);
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(3));
  EXPECT_FALSE(Opens(v, joined));
}

std::string Traceback(const std::string& prefix, const std::string& exception) {
  return prefix + "Traceback (most recent call last):\n" + prefix +
         "  File \"/opt/train.py\", line 90, in main\n" + prefix + "    train_step(batch)\n" +
         prefix + "  File \"/opt/train.py\", line 41, in train_step\n" + prefix +
         "    loss.backward()\n" + prefix + exception + "\n";
}

TEST(JobOutputTest, ExceptionIsNamedWithItsRankAndPlace) {
  const JoinedJob joined = Join({{"job.log", Traceback("[rank3]: ", "ValueError: bad batch")}});
  const Verdict v = OnlyVerdict(joined);
  EXPECT_EQ(v.finding_class, "error");
  EXPECT_EQ(v.cause, "uncaught_exception");
  EXPECT_TRUE(v.conclusive);
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(3));
  EXPECT_EQ(v.summary, "Rank 3 raised ValueError: bad batch, in train_step (train.py:41).");
}

TEST(JobOutputTest, ExceptionsAreSortedByWhatTheySay) {
  struct Row {
    const char* text;
    const char* cause;
    const char* team;
    bool conclusive;
  };
  const Row kTable[] = {
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "cuda_error",
       "algorithm", true},
      {"RuntimeError: CUDA error: uncorrectable ECC error encountered", "cuda_error", "operations",
       true},
      {"RuntimeError: CUDA error: device-side assert triggered", "cuda_error", "algorithm", true},
      {"torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled system error",
       "nccl_error", "infrastructure", true},
      {"torch.distributed.DistBackendError: NCCL error: remote process exited or there was a "
       "network "
       "error",
       "nccl_error", "infrastructure", false},
      {"RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.1]:59101", "nccl_error",
       "infrastructure", false},
  };
  for (const Row& row : kTable) {
    const Verdict v = OnlyVerdict(Join({{"job.log", Traceback("[rank1]: ", row.text)}}));
    EXPECT_EQ(v.cause, row.cause) << row.text;
    EXPECT_EQ(v.team, row.team) << row.text;
    EXPECT_EQ(v.conclusive, row.conclusive) << row.text;
    EXPECT_EQ(v.ranks.empty(), !row.conclusive) << row.text;  // who lost a peer is a victim
  }
}

TEST(JobOutputTest, LostConnectionsAreSilentWhenTheReasonIsKnown) {
  std::string log = Traceback("[rank1]: ", "ValueError: bad batch");
  for (const char* rank : {"[rank0]: ", "[rank2]: "}) {
    log += Traceback(rank, "RuntimeError: Connection closed by peer [10.0.0.1]:59101");
  }
  EXPECT_THAT(Numbers(OnlyVerdict(Join({{"job.log", log}})).ranks), ElementsAre(1));
}

TEST(JobOutputTest, InterruptsAndPlannedEndsAreNoErrors) {
  const JoinedJob joined =
      Join({{"job.log", Traceback("", "KeyboardInterrupt") + Traceback("", "SystemExit: 0")}});
  EXPECT_THAT(VerdictsOf(joined), IsEmpty());
}

std::string Summary(const std::string& exit_code, const std::string& traceback) {
  return R"(torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2024-01-01_12:00:01
  host      : node2
  rank      : 5 (local_rank: 1)
  exitcode  : -6 (pid: 222)
  error_file: <N/A>
  traceback : Signal 6 (SIGABRT) received by PID 222
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2024-01-01_12:00:00
  host      : node1
  rank      : 3 (local_rank: 3)
  exitcode  : )" +
         exit_code + R"( (pid: 12345)
  error_file: <N/A>
  traceback : )" +
         traceback + R"(
============================================================
)";
}

TEST(JobOutputTest, SummaryOfTorchrunNamesTheFirstFailure) {
  const Verdict v =
      OnlyVerdict(Join({{"job.log", Summary("-9", "Signal 9 (SIGKILL) received by PID 12345")}}));
  EXPECT_EQ(v.cause, "process_crashed");
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(3));
  EXPECT_THAT(v.nodes, ElementsAre("node1"));
  EXPECT_THAT(v.summary, HasSubstr("by signal 9"));
}

TEST(JobOutputTest, SummaryOfTorchrunAddsNothingToTheExceptionItself) {
  const std::string log = Traceback("[rank3]: ", "ValueError: bad batch") +
                          Summary("1", "To enable traceback see: https://pytorch.org");
  const Verdict v = OnlyVerdict(Join({{"job.log", log}}));
  EXPECT_THAT(v.summary, HasSubstr("ValueError: bad batch"));
  EXPECT_THAT(OnlyVerdict(Join({{"job.log", Summary("1", "no more")}})).summary,
              HasSubstr("ended with status 1"));
}

TEST(JobOutputTest, WrongResultsOfNcclTestsAreAFault) {
  const Fragment fragment = Import({"perf.log",
                                    "# nThread 1 nGpus 8\n# Out of bounds values : 12 FAILED\n"
                                    "# Avg bus bandwidth    : 68.4048\n"});
  ASSERT_EQ(fragment.signals.size(), 1u);
  EXPECT_EQ(fragment.signals[0].kind, SignalKind::kNodeFault);
  EXPECT_EQ(fragment.signals[0].value, 12);
}

TEST(JobOutputTest, OtherTextIsRefused) {
  EXPECT_THAT(ImportError({"notes.txt", "All went well.\n"}), HasSubstr("no message of NCCL"));
  EXPECT_THAT(ImportError({"empty.txt", ""}), HasSubstr("it is empty"));
}

// ---- Recorded.

// The watchdog thread of one GPU saw "CUDA error: unknown error"; the log tells its place on the
// node.
TEST(JobOutputTest, RecordedGpuCrashIsACudaError) {
  const std::vector<TestFile> files =
      TraceFiles(FLARE_TRACES, "bigscience-bloom", "2022-03-21-gpu-crash.log");
  if (files.empty()) GTEST_SKIP() << "no recorded logs";
  const JoinedJob joined = Join(files);
  const Verdict v = OnlyVerdict(joined);
  EXPECT_EQ(v.cause, "cuda_error");
  EXPECT_EQ(v.team, "operations");
  EXPECT_TRUE(Opens(v, joined));
  EXPECT_THAT(v.summary, HasSubstr("Local rank 3"));
}

// Stated: largest size 8 GiB at 235.26 GB/s, 68.4048 on average.
TEST(JobOutputTest, RecordedTableOfNcclTestsIsRead) {
  const std::vector<TestFile> files = TraceFiles(FLARE_TRACES, "superbench", "nccl_allreduce.log");
  if (files.empty()) GTEST_SKIP() << "no recorded logs";
  EXPECT_THAT(
      Import(files[0]).notes,
      Contains("nccl-tests: 235.26 GB/s of bus bandwidth at 8192.0 MiB, 68.40 GB/s on average of "
               "all sizes"));
}

// Every log there: read, or refused with a reason; and what finished well opens nothing.
TEST(JobOutputTest, RecordedLogsAreReadOrRefusedWithAReason) {
  size_t seen = 0;
  for (const char* folder :
       {"mlperf", "superbench", "bigscience-bloom", "bigscience-bloom/experiments", "dlrover"}) {
    for (const TestFile& file : TraceFiles(FLARE_TRACES, folder, "")) {
      ++seen;
      const std::unique_ptr<Input> input = Input::FromMemory(file.name, file.bytes);
      Fragment fragment;
      for (const Importer& importer : Importers()) {
        if (std::string(importer.kind) != "job-output") continue;
        const Status status = importer.read(input.get(), &fragment);
        if (status.ok()) continue;
        EXPECT_THAT(status.message(), HasSubstr("no message of NCCL")) << file.name;
      }
    }
  }
  if (seen == 0) GTEST_SKIP() << "no recorded logs";
}

}  // namespace
}  // namespace flare::import
