// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diag/import/nccl_line.h"
#include "tests/diag/import/import_testing.h"

namespace flare::import {
namespace {

using diag::SignalKind;
using diag::Verdict;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Line(const std::string& host, int pid, const std::string& message) {
  return host + ":" + std::to_string(pid) + ":" + std::to_string(pid + 9) + " [0] " + message +
         "\n";
}

std::string Init(const std::string& host, int pid, int rank, int ranks) {
  return Line(host, pid,
              "NCCL INFO comm 0x55e5e9813f00 rank " + std::to_string(rank) + " nranks " +
                  std::to_string(ranks) +
                  " cudaDev 0 nvmlDev 0 busId 4e000 commId 0x9c8695409e569bc5 - Init COMPLETE");
}

std::string Send(const std::string& host, int pid, const std::string& via) {
  return Line(host, pid, "NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via " + via);
}

TEST(NcclLogTest, LinesOfAllFormsAreTakenApart) {
  const auto plain = ParseNcclLine("node-1.a:123:456 [3] NCCL INFO Using network IB");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->host, "node-1.a");
  EXPECT_EQ(plain->pid, 123);
  EXPECT_EQ(plain->device, 3);
  EXPECT_EQ(plain->message, "Using network IB");
  const auto warning = ParseNcclLine("n1:7:8 [0] transport.cc:253 NCCL WARN Cannot initialize");
  ASSERT_TRUE(warning.has_value());
  EXPECT_TRUE(warning->warning);
  EXPECT_EQ(warning->place, "transport.cc:253");
  const auto timed = ParseNcclLine("[2025-01-08 12:04:21] n1:7:8 [0] NCCL INFO x");
  ASSERT_TRUE(timed.has_value());
  EXPECT_EQ(timed->host, "n1");
  EXPECT_FALSE(ParseNcclLine("about NCCL INFO lines").has_value());
  EXPECT_FALSE(ParseNcclLine("n1:x:8 [0] NCCL INFO x").has_value());
}

TEST(NcclLogTest, CommunicatorsOfAllVersionsAreTakenApart) {
  for (const char* message :
       {"comm 0x14cd94008fb0 rank 9 nranks 16 cudaDev 0 busId 100000 - Init COMPLETE",
        "ncclCommInitRank comm 0x14cd94008fb0 rank 9 nranks 16 cudaDev 0 nvmlDev 0 busId 100000 "
        "commId 0xab - Init COMPLETE"}) {
    const auto comm = ParseNcclComm(message);
    ASSERT_TRUE(comm.has_value()) << message;
    EXPECT_EQ(comm->rank, 9u);
    EXPECT_EQ(comm->ranks, 16u);
    EXPECT_EQ(comm->what, "Init COMPLETE");
  }
  EXPECT_FALSE(ParseNcclComm("comm 0x1 rank 16 nranks 16 - Init COMPLETE").has_value());
  EXPECT_FALSE(ParseNcclComm("comm 0x1 rank 3 - Init COMPLETE").has_value());
}

TEST(NcclLogTest, RanksAreThoseOfTheLargestCommunicator) {
  const std::string log =
      Init("a", 1, 1, 2) + Init("a", 1, 3, 4) + Init("b", 1, 0, 2) + Init("b", 1, 0, 4);
  const Fragment fragment = Import({"job.log", log});
  ASSERT_EQ(fragment.ranks.size(), 2u);
  EXPECT_EQ(fragment.ranks[0].rank, Rank(3));
  EXPECT_EQ(fragment.ranks[0].record.node, "a");
  EXPECT_EQ(fragment.ranks[1].rank, Rank(0));
  EXPECT_EQ(fragment.ranks[1].world_size, 4u);
}

TEST(NcclLogTest, ProcessesOfTwoRunsAreNotMixed) {
  const Fragment fragment = Import({"job.log", Init("a", 1, 0, 2) + Init("a", 2, 0, 2)});
  EXPECT_THAT(fragment.ranks, IsEmpty());
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("2 processes left out: of several runs")));
}

TEST(NcclLogTest, NodeWithoutGpuDirectAmongOthersIsSuspected) {
  const std::string log = Init("a", 1, 0, 2) + Init("b", 1, 1, 2) +
                          Send("a", 1, "NET/IB/0/GDRDMA") + Send("b", 1, "NET/IB/0");
  const JoinedJob joined = Join({{"job.log", log}});
  const Verdict v = OnlyVerdict(joined);
  EXPECT_EQ(v.finding_class, "fail_slow");
  EXPECT_EQ(v.cause, "gpu_direct_off");
  EXPECT_THAT(v.nodes, testing::ElementsAre("b"));
  EXPECT_FALSE(Opens(v, joined));
}

// Omni-Path and unknown NICs may not have it: only a fact.
TEST(NcclLogTest, GpuDirectOffWhereItMayNotExistIsNoFinding) {
  const std::string log =
      Line("a", 1, "NCCL INFO NET/IB : Using [0]hfi1_0:1/IB ; OOB ib0:10.1.1.1<0>") +
      Init("a", 1, 0, 1) + Send("a", 1, "NET/IB/0");
  const JoinedJob joined = Join({{"job.log", log}});
  EXPECT_THAT(VerdictsOf(joined), IsEmpty());
  EXPECT_THAT(joined.notes, Contains(HasSubstr("GPU-direct off")));
}

TEST(NcclLogTest, WarningsBecomeSignalsOfTheirRank) {
  struct Row {
    const char* text;
    SignalKind kind;
    std::optional<int64_t> code;
    const char* cause;
  };
  const Row kTable[] = {
      {"NCCL WARN Cuda failure 700 'an illegal memory access was encountered'",
       SignalKind::kCudaError, 700, "cuda_error"},
      {"NCCL WARN Cuda failure 'out of memory'", SignalKind::kCudaError, std::nullopt,
       "cuda_error"},
      {"NCCL WARN NET/IB : Got completion from peer 10.1.1.2<4711> with status=12 opcode=0 len=0",
       SignalKind::kNcclError, 2, "nccl_error"},
      {"NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 4e000",
       SignalKind::kNcclError, 5, "nccl_error"},
      {"NCCL WARN socketProgress: Connection closed by remote peer b<4711>", SignalKind::kNcclError,
       6, "nccl_error"},
      {"NCCL WARN Cannot initialize CollNet, using point-to-point network instead",
       SignalKind::kCollectiveFallback, std::nullopt, "collective_algorithm"},
  };
  for (const Row& row : kTable) {
    const std::string log = Init("a", 1, 0, 2) + Init("b", 1, 1, 2) + Line("b", 1, row.text);
    const JoinedJob joined = Join({{"job.log", log}});
    ASSERT_EQ(joined.job.signals.size(), 1u) << row.text;
    EXPECT_EQ(joined.job.signals[0].kind, row.kind) << row.text;
    EXPECT_EQ(joined.job.signals[0].code, row.code) << row.text;
    EXPECT_EQ(joined.job.signals[0].rank, Rank(1)) << row.text;
    EXPECT_EQ(OnlyVerdict(joined).cause, row.cause) << row.text;
  }
}

TEST(NcclLogTest, UnknownWarningsAreCountedOnly) {
  const std::string log =
      Init("a", 1, 0, 1) + Line("a", 1, "NCCL WARN NUMA auto balancing enabled");
  const JoinedJob joined = Join({{"job.log", log}});
  EXPECT_THAT(VerdictsOf(joined), IsEmpty());
  EXPECT_THAT(joined.notes, Contains(HasSubstr("1 warning of NCCL of other kinds")));
}

// ---- Recorded logs of MLPerf and BLOOM. All jobs finished.

struct Truth {
  const char* file;
  uint32_t ranks, nodes;
  const char* facts;
  std::vector<std::string> causes;
};

const Truth kTruths[] = {
    {"mlperf/v4.1-clemson-6x8xH100-bert-result_0.txt.gz", 48, 6, "network IBext", {}},
    {"mlperf/v4.1-clemson-6x8xH100-bert-result_3.txt.gz", 48, 6, "GPU-direct on", {}},
    {"mlperf/v3.1-dell-2x4xH100-bert-result_0.txt.gz", 8, 2, "GPU-direct on", {}},
    // Stated: SHARP could not be set up, point-to-point was used instead, and the job finished.
    {"mlperf/v2.1-azure-4x8xA100-maskrcnn-result_0.txt.gz",
     32,
     4,
     "GPU-direct on",
     {"collective_algorithm"}},
    {"mlperf/v2.1-azure-16x8xA100-rnnt-result_0.txt.gz",
     128,
     16,
     "GPU-direct off",
     {"gpu_direct_off", "collective_algorithm"}},
    {"bigscience-bloom/experiments/all_reduce_bench-a100-n4.txt.gz", 32, 4, "GPU-direct off", {}},
    {"bigscience-bloom/experiments/meg_ds_3d_gpt2_perf_n16.out.gz", 64, 16, "NCCL 2.7.8", {}},
    {"bigscience-bloom/experiments/n16_32gb_all_reduce_bench.txt.gz", 64, 16, "NET/IB 368", {}},
};

TEST(NcclLogTest, RecordedLogsOfFinishedJobsOpenNoFinding) {
  for (const Truth& truth : kTruths) {
    const std::filesystem::path path(truth.file);
    const std::vector<TestFile> files =
        TraceFiles(FLARE_TRACES, path.parent_path(), path.filename().string());
    if (files.empty()) GTEST_SKIP() << "no recorded logs";
    const JoinedJob joined = Join(files);
    EXPECT_EQ(joined.job.ranks.size(), truth.ranks) << truth.file;
    EXPECT_EQ(joined.job.world_size, truth.ranks) << truth.file;
    EXPECT_THAT(joined.notes, Contains(HasSubstr(truth.facts))) << truth.file;
    EXPECT_THAT(joined.notes, Contains(HasSubstr("on " + std::to_string(truth.nodes) + " nodes")));
    std::vector<std::string> causes;
    for (const Verdict& verdict : VerdictsOf(joined)) {
      causes.push_back(verdict.cause);
      EXPECT_FALSE(Opens(verdict, joined)) << truth.file << ": " << verdict.summary;
      EXPECT_EQ(verdict.severity, "low") << truth.file;
      EXPECT_THAT(verdict.ranks, IsEmpty()) << truth.file;
    }
    EXPECT_EQ(causes, truth.causes) << truth.file;
  }
}

// 13,576 lines, 144 communicators completed: 3 for each of 48 ranks.
TEST(NcclLogTest, RecordedLogTellsTheCommunicatorsOfEachRank) {
  const std::vector<TestFile> files =
      TraceFiles(FLARE_TRACES, "mlperf", "v4.1-clemson-6x8xH100-bert-result_0");
  if (files.empty()) GTEST_SKIP() << "no recorded logs";
  const Fragment fragment = Import(files[0]);
  ASSERT_EQ(fragment.ranks.size(), 48u);
  for (const RankFragment& rank : fragment.ranks) {
    EXPECT_EQ(rank.record.state.communicators.size(), 3u);
    EXPECT_FALSE(rank.record.node.empty());
  }
}

}  // namespace
}  // namespace flare::import
