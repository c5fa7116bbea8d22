// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/diag/import/import_testing.h"

namespace flare::import {
namespace {

using diag::Verdict;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Answer(const std::string& status, const std::string& rest, int gpus = 32) {
  const std::string count = std::to_string(gpus);
  return "Job summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n"
         "(total)   per node  per process    (total)  (total)\n"
         "      4          8            1         " +
         count + "       " + count +
         "\n\n"
         "Communicators... (0.00s)\n=============\n\n"
         "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
         "    #  in group  per comm  per node  per comm  in group\n"
         "    0         1         4         8        32        32   RUNNING  " +
         status + "\n\n" + rest;
}

const char kMismatch[] =
    "Warnings\n========\n\n#0-0 (27a079b828ff1a75) MISMATCH\n"
    "  Communicator ranks have different collective operation counts\n"
    "  26 ranks have launched up to operation 6650\n"
    "  6 ranks have launched up to operation 6649\n"
    "  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210\n";

TEST(NcclRasTest, HealthyAnswerIsNoFinding) {
  EXPECT_THAT(
      VerdictsOf(Join({{"ras.txt", Answer("OK", "Errors\n======\n\nWarnings\n========\n")}})),
      IsEmpty());
}

TEST(NcclRasTest, SilentProcessIsSuspectedAndADeadOneOpen) {
  const std::string missing =
      "    1 job process\n  Process 3487984 on node 172.16.64.213 managing GPU 5\n\n"
      "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n"
      "  The missing rank: 21\n";
  const JoinedJob silent =
      Join({{"ras.txt", Answer("INCOMPLETE", "Errors\n======\n\nINCOMPLETE\n" + missing)}});
  const Verdict v = OnlyVerdict(silent);
  EXPECT_EQ(v.finding_class, "hang");
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(21));
  EXPECT_THAT(v.nodes, ElementsAre("172.16.64.213"));
  EXPECT_FALSE(Opens(v, silent));
  const JoinedJob dead =
      Join({{"ras.txt", Answer("INCOMPLETE", "Errors\n======\n\nDEAD\n" + missing)}});
  const Verdict w = OnlyVerdict(dead);
  EXPECT_EQ(w.cause, "process_crashed");
  EXPECT_THAT(Numbers(w.ranks), ElementsAre(21));
  EXPECT_TRUE(Opens(w, dead));
}

TEST(NcclRasTest, RankOfAPartOfTheJobIsNotTakenForARankOfTheJob) {
  const std::string rest =
      "Errors\n======\n\nINCOMPLETE\n  Process 7 on node n managing GPU 5\n\n"
      "#0-0 (cf) INCOMPLETE\n  Rank 21 -- GPU 5 managed by process 7 on node n\n";
  const Verdict v = OnlyVerdict(Join({{"ras.txt", Answer("INCOMPLETE", rest, 64)}}));
  EXPECT_THAT(v.ranks, IsEmpty());
  EXPECT_THAT(v.nodes, ElementsAre("n"));
}

TEST(NcclRasTest, CountsThatDifferOnceBlameNobody) {
  const JoinedJob joined = Join({{"ras.txt", Answer("MISMATCH", kMismatch)}});
  const Verdict v = OnlyVerdict(joined);
  EXPECT_EQ(v.severity, "low");
  EXPECT_THAT(v.ranks, IsEmpty());
  EXPECT_THAT(v.summary,
              HasSubstr("26 ranks have launched up to operation 6650, 6 ranks have launched"));
  EXPECT_FALSE(Opens(v, joined));
}

TEST(NcclRasTest, CountsThatStandStillInTwoAnswersWeighMore) {
  const std::string twice = Answer("MISMATCH", kMismatch) + Answer("MISMATCH", kMismatch);
  const Verdict v = OnlyVerdict(Join({{"ras.txt", twice}}));
  EXPECT_EQ(v.severity, "medium");
  EXPECT_THAT(v.summary, HasSubstr("none since the answer before"));
  std::string moved = kMismatch;
  moved.replace(moved.find("6650"), 4, "6680");
  EXPECT_EQ(
      OnlyVerdict(Join({{"ras.txt", Answer("MISMATCH", kMismatch) + Answer("MISMATCH", moved)}}))
          .severity,
      "low");
}

// Members that have not called ncclCommFinalize yet are nothing to worry about.
TEST(NcclRasTest, StatesThatDifferAreNoFinding) {
  const std::string rest =
      "Warnings\n========\n\n#0-0 (9e) MISMATCH\n"
      "  Communicator ranks have different status\n  26 ranks have status UNKNOWN\n";
  EXPECT_THAT(VerdictsOf(Join({{"ras.txt", Answer("MISMATCH", rest)}})), IsEmpty());
}

TEST(NcclRasTest, MonitorTellsADeadPeer) {
  const JoinedJob text =
      Join({{"ras.txt",
             "RAS Monitor Mode - watching for peer changes (Ctrl+C to exit)...\n====\n"
             "[2025-12-19 13:07:07] PEER_DEAD: Process 1524345 on node 172.16.64.245 managing GPU "
             "1\n"}});
  EXPECT_EQ(OnlyVerdict(text).cause, "process_crashed");
  const JoinedJob json =
      Join({{"ras.json",
             R"({"timestamp": "2025-12-19 13:07:07", "group": "LIFECYCLE", "event": "PEER_DEAD",
          "peer": {"host": "172.16.64.245", "pid": 1524345, "cuda_devs": [1], "nvml_devs": [1]}})"}});
  EXPECT_THAT(OnlyVerdict(json).nodes, ElementsAre("172.16.64.245"));
}

TEST(NcclRasTest, MissingRankOfJsonThatIsReachableIsNoFinding) {
  const char kFormat[] =
      R"({"nccl_version": "2.29.1", "communicators_count": 1, "communicators": [{"hash": "0xae", "size": 2,
          "ranks_count": 1, "missing_ranks_count": 1, "ranks": [{"rank": 0, "host": "a", "pid": 1,
          "status": {"init_state": 7, "async_error": 7}, "collective_counts": {"AllReduce": 3}}],
          "missing_ranks": [{"rank": 1, "host": "b", "pid": 2, "nvml_dev": 4,
          "status": {"unresponsive": %s, "considered_dead": %s}}]}]})";
  const auto answer = [&](const char* silent, const char* dead) {
    char text[1024];
    std::snprintf(text, sizeof text, kFormat, silent, dead);
    return Join({{"ras.json", text}});
  };
  EXPECT_THAT(VerdictsOf(answer("false", "false")), IsEmpty());
  EXPECT_THAT(Numbers(OnlyVerdict(answer("true", "false")).ranks), ElementsAre(1));
  EXPECT_TRUE(OnlyVerdict(answer("true", "true")).conclusive);
}

TEST(NcclRasTest, HostileAnswersAreRefusedOrHarmless) {
  EXPECT_THAT(ImportError({"ras.json", R"({"communicators_count": 1, "communicators": [)"}),
              HasSubstr("not valid JSON"));
  EXPECT_THAT(ImportError({"ras.json", R"({"communicators_count": 1, "communicators": 3})"}),
              HasSubstr("no answer of RAS"));
  // Sizes and ranks beyond any job.
  Import({"ras.json", R"({"communicators_count": 1, "communicators": [{"size": 9223372036854775807,
                          "missing_ranks_count": 1e300, "ranks": [{"rank": -5}, 7, null]}]})"});
  Import({"ras.txt",
          Answer("INCOMPLETE", "#0-0 (cf) INCOMPLETE\n  The missing ranks: 0-4294967295,x,-\n")});
}

// ---- Recorded captures of RCCL, and the samples of NCCL's documentation.

Verdict Recorded(const std::string& name, JoinedJob* joined) {
  const std::vector<TestFile> files = TraceFiles(FLARE_TRACES, "rocm-cvs-ras", name);
  if (files.empty()) return Verdict();
  *joined = Join(files);
  return OnlyVerdict(*joined);
}

TEST(NcclRasTest, RecordedCapturesNameTheMissingRank) {
  if (TraceFiles(FLARE_TRACES, "rocm-cvs-ras", "").empty()) GTEST_SKIP() << "no recorded captures";
  JoinedJob joined;
  EXPECT_THAT(Numbers(Recorded("rccl_v2283_text_degraded.txt", &joined).ranks), ElementsAre(6));
  const Verdict v = Recorded("rccl_v2283_text_degraded_2node.txt", &joined);
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(3));
  EXPECT_THAT(v.nodes, ElementsAre("10.245.40.180"));
  EXPECT_FALSE(Opens(v, joined));
}

TEST(NcclRasTest, RecordedHealthyCapturesAreNoFinding) {
  for (const char* name : {"rccl_v2283_text_healthy.txt", "rccl_v2289_json_healthy.json"}) {
    const std::vector<TestFile> files = TraceFiles(FLARE_TRACES, "rocm-cvs-ras", name);
    if (files.empty()) GTEST_SKIP() << "no recorded captures";
    EXPECT_THAT(VerdictsOf(Join(files)), IsEmpty()) << name;
  }
}

// Rank 6 has an error and was aborted; of rank 7 there is no data.
TEST(NcclRasTest, RecordedJsonTellsTheErrorAndTheMissingRank) {
  const std::vector<TestFile> files =
      TraceFiles(FLARE_TRACES, "rocm-cvs-ras", "rccl_v2289_json_degraded.json");
  if (files.empty()) GTEST_SKIP() << "no recorded captures";
  const JoinedJob joined = Join(files);
  const std::vector<Verdict> verdicts = VerdictsOf(joined);
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].cause, "nccl_error");
  EXPECT_THAT(Numbers(verdicts[0].ranks), ElementsAre(6));
  EXPECT_THAT(Numbers(verdicts[1].ranks), ElementsAre(7));
  EXPECT_FALSE(Opens(verdicts[1], joined));
}

TEST(NcclRasTest, RecordedRefusalIsAnError) {
  const std::vector<TestFile> files =
      TraceFiles(FLARE_TRACES, "rocm-cvs-ras", "rccl_v2283_text_connection_reset.txt");
  if (files.empty()) GTEST_SKIP() << "no recorded captures";
  EXPECT_THAT(ImportError(files[0]),
              HasSubstr("RAS gave no answer: read socket: Connection reset"));
}

// The code blocks of the page, in their order, without their indentation.
std::vector<std::string> CodeBlocks() {
  std::vector<std::string> blocks;
  std::ifstream page(std::string(FLARE_TRACES) + "/nccl-docs/ras.rst");
  std::string line;
  bool inside = false;
  while (std::getline(page, line)) {
    if (line.starts_with(".. code::")) {
      blocks.emplace_back();
      inside = true;
    } else if (!line.empty() && line[0] != ' ') {
      inside = false;
    } else if (inside) {
      blocks.back() += (line.size() > 2 ? line.substr(2) : "") + "\n";
    }
  }
  return blocks;
}

TEST(NcclRasTest, SamplesOfTheDocumentationAreRead) {
  const std::vector<std::string> blocks = CodeBlocks();
  if (blocks.size() < 11) GTEST_SKIP() << "no documentation";
  const std::string healthy = blocks[0] + blocks[1];
  EXPECT_THAT(VerdictsOf(Join({{"ras.txt", healthy}})), IsEmpty());
  const std::string mismatch = blocks[0] + "Communicators... (0.00s)\n" + blocks[2] + blocks[3];
  EXPECT_EQ(OnlyVerdict(Join({{"ras.txt", mismatch}})).severity, "low");
  const std::string incomplete = blocks[0] + blocks[5];
  const Verdict v = OnlyVerdict(Join({{"ras.txt", incomplete}}));
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(21));
  EXPECT_FALSE(v.conclusive);
  const std::string dead = blocks[0] + blocks[5] + blocks[6];
  EXPECT_TRUE(OnlyVerdict(Join({{"ras.txt", dead}})).conclusive);
  EXPECT_THAT(Numbers(OnlyVerdict(Join({{"ras.json", blocks[7]}})).ranks), ElementsAre(1));
  EXPECT_EQ(OnlyVerdict(Join({{"ras.txt", blocks[8] + blocks[9]}})).cause, "process_crashed");
  EXPECT_EQ(OnlyVerdict(Join({{"ras.json", blocks[10]}})).cause, "process_crashed");
}

}  // namespace
}  // namespace flare::import
