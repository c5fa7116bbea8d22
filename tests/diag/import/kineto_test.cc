// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "diag/import/importers.h"

// Traces written by hand, one thing each. Recorded ones are in kineto_traces_test.cc.
namespace flare::import {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kBase = 1'700'000'000'000'000;  // microseconds

// One complete event; `args` without braces.
std::string Event(const std::string& cat, const std::string& name, const std::string& pid,
                  const std::string& tid, double begin_us, double us,
                  const std::string& args = "") {
  return R"({"ph":"X","cat":")" + cat + R"(","name":")" + name + R"(","pid":)" + pid +
         R"(,"tid":)" + tid + R"(,"ts":)" + std::to_string(kBase + static_cast<int64_t>(begin_us)) +
         R"(,"dur":)" + std::to_string(us) + R"(,"args":{)" + args + "}}";
}

std::string Kernel(const std::string& name, double begin_us, double us, int correlation,
                   const std::string& more = "", int device = 0, int stream = 7) {
  return Event("kernel", name, std::to_string(device), std::to_string(stream), begin_us, us,
               "\"device\":" + std::to_string(device) + ",\"stream\":" + std::to_string(stream) +
                   ",\"correlation\":" + std::to_string(correlation) +
                   (more.empty() ? "" : "," + more));
}

std::string Launch(double begin_us, int correlation, const std::string& pid = "100",
                   const std::string& name = "cudaLaunchKernel") {
  return Event("cuda_runtime", name, pid, pid, begin_us, 2,
               "\"correlation\":" + std::to_string(correlation));
}

std::string Trace(const std::vector<std::string>& events, const std::string& header = "") {
  std::string text = "{\"schemaVersion\":1," + header + "\"traceEvents\":[";
  for (const std::string& event : events) text += (text.back() == '[' ? "" : ",\n") + event;
  return text + "]}";
}

Fragment Read(const std::string& text) {
  const auto input = Input::FromMemory("t", text);
  Fragment fragment;
  const Status status = ReadKineto(input.get(), &fragment);
  EXPECT_TRUE(status.ok()) << status.message();
  return fragment;
}

std::string Error(const std::string& text) {
  const auto input = Input::FromMemory("t", text);
  Fragment fragment;
  return ReadKineto(input.get(), &fragment).message();
}

const diag::CommunicatorStep& OnlyCommunicator(const Fragment& fragment) {
  const diag::RankRecord& record = fragment.ranks.at(0).record;
  EXPECT_THAT(record.steps.at(0).communicators, SizeIs(1));
  return record.steps[0].communicators.at(0);
}

constexpr char kDistributed[] =
    R"("distributedInfo":{"backend":"nccl","rank":1,"world_size":4,)"
    R"("pg_config":[{"pg_name":"7","pg_desc":"tp","pg_size":2,"ranks":[1,3]}]},)";
constexpr char kGroup[] =
    R"("Collective name":"allreduce","In msg nelems":10,"Group size":2,"dtype":"BFloat16",)"
    R"("Process Group Name":"7","Process Group Description":"tp","Process Group Ranks":"[1, 3]")";

TEST(KinetoTest, HeaderNamesRankWorldAndDevice) {
  const Fragment fragment =
      Read(Trace({Kernel("k", 0, 5, 1)},
                 std::string(kDistributed) + R"("deviceProperties":[{"id":0,"name":"GPU A"}],)"));
  ASSERT_THAT(fragment.ranks, SizeIs(1));
  EXPECT_EQ(fragment.ranks[0].rank, Rank(1));
  EXPECT_EQ(fragment.ranks[0].world_size, 4u);
  EXPECT_THAT(fragment.ranks[0].record.recording->devices, ElementsAre("GPU A"));
  EXPECT_TRUE(fragment.absolute_time);
}

TEST(KinetoTest, WithoutHeaderTheRankIsNotTold) {
  const Fragment fragment = Read(Trace({Kernel("k", 0, 5, 1)}));
  EXPECT_EQ(fragment.ranks.at(0).rank, std::nullopt);
  EXPECT_EQ(fragment.ranks[0].world_size, 0u);
}

TEST(KinetoTest, BaseTimeComesAfterTheEventsAndMovesThem) {
  const std::string text =
      R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":12.345,"dur":1}],)"
      R"("baseTimeNanoseconds":1735632360000000000})";
  const Fragment fragment = Read(text);
  EXPECT_EQ(fragment.ranks.at(0).record.steps.at(0).start_unix_ns, 1735632360000012345u);
  EXPECT_TRUE(fragment.absolute_time);
}

TEST(KinetoTest, TimesOfAnUnknownOriginAreSaid) {
  const Fragment fragment =
      Read(R"([{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":12,"dur":1}])");
  EXPECT_FALSE(fragment.absolute_time);
  EXPECT_THAT(fragment.notes, testing::Contains(HasSubstr("unknown origin")));
}

TEST(KinetoTest, OldCapitalCategoriesAndTextThreadsAreRead) {
  const Fragment fragment = Read(Trace(
      {Event("Operator", "ProfilerStep#4", "100", "\"100\"", 0, 100),
       Event("Operator", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "100",
             "\"100\"", 1, 30),
       Event("Runtime", "cudaLaunchKernel", "100", "\"100\"", 40, 3, R"("correlation":9)"),
       Event("Kernel", "volta_sgemm_128x64_nn", "0", "\"stream 7\"", 60, 10,
             R"("device":0,"stream":7,"correlation":9)"),
       Event("Memcpy", "Memcpy HtoD", "0", "\"stream 7\"", 80, 5, R"("device":0,"stream":7)")}));
  const diag::RankStep& step = fragment.ranks.at(0).record.steps.at(0);
  EXPECT_EQ(step.step, StepId(4));
  EXPECT_EQ(step.device->kernels, 1u);
  EXPECT_EQ(step.device->memory_operations, 1u);
  EXPECT_EQ(step.device->compute_issue_latency.sum(), 20'000u);
  ASSERT_THAT(step.phases, SizeIs(1));
  EXPECT_EQ(step.phases[0].kind, EventKind::kDataLoad);
  EXPECT_EQ(step.phases[0].total_ns, 30'000u);
}

TEST(KinetoTest, CollectiveIsDescribedByItsKernel) {
  const Fragment fragment = Read(Trace(
      {Kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(int)", 50, 8, 5, kGroup), Launch(10, 5)},
      kDistributed));
  const diag::CommunicatorStep& comm = OnlyCommunicator(fragment);
  EXPECT_EQ(comm.operations.at(0).operation, Operation::kAllReduce);
  EXPECT_EQ(comm.operations[0].data_type, DataType::kBfloat16);
  EXPECT_EQ(comm.operations[0].bytes, 20u);
  EXPECT_THAT(comm.duration_us, ElementsAre(8u));
  const auto& states = fragment.ranks[0].record.state.communicators;
  ASSERT_THAT(states, SizeIs(1));
  EXPECT_EQ(states[0].name, "tp");
  EXPECT_EQ(states[0].group_rank, 0u);
  EXPECT_EQ(states[0].group_size, 2u);
}

TEST(KinetoTest, MembersOfAGroupGetTheSameCommunicatorAndOthersDoNot) {
  const auto read = [](int rank, const std::string& ranks) {
    const std::string header =
        R"("distributedInfo":{"rank":)" + std::to_string(rank) + R"(,"world_size":4},)";
    const std::string group =
        R"("Collective name":"allreduce","Group size":2,"Process Group Name":"7","Process Group Ranks":")" +
        ranks + '"';
    return OnlyCommunicator(
               Read(Trace({Kernel("ncclDevKernel_AllReduce(int)", 5, 5, 1, group)}, header)))
        .communicator;
  };
  EXPECT_EQ(read(1, "[1, 3]"), read(3, "[1, 3]"));
  EXPECT_NE(read(1, "[1, 3]"), read(0, "[0, 2]"));
}

// One rank's trace begins a call later than the other's: counting would pair the wrong ones.
TEST(KinetoTest, WithoutSequenceNumbersOnlyEqualCallsMeet) {
  const auto read = [](const std::vector<int>& elements) {
    std::vector<std::string> events;
    for (const int count : elements) {
      const std::string group =
          R"("Collective name":"allreduce","Group size":2,"dtype":"Float",)"
          R"("Process Group Name":"7","Process Group Ranks":"[0, 1]","In msg nelems":)" +
          std::to_string(count);
      const int at = static_cast<int>(events.size()) * 10;
      events.push_back(Kernel("ncclDevKernel_AllReduce(int)", at, 5, at + 1, group));
    }
    return OnlyCommunicator(Read(Trace(events))).communicator;
  };
  EXPECT_EQ(read({10, 20, 10}), read({10, 20, 10}));
  EXPECT_NE(read({10, 20, 10}), read({20, 10, 20}));
}

TEST(KinetoTest, RanksThatTheEventShortensComeFromTheHeader) {
  const std::string group =
      R"("Collective name":"allreduce","Group size":2,"Process Group Name":"7","Process Group Ranks":"[1, ..., 3]")";
  const Fragment fragment = Read(Trace(
      {Kernel("ncclDevKernel_AllReduce(int)", 5, 5, 1, group)},
      R"("distributedInfo":{"rank":3,"world_size":4,"pg_config":[{"pg_name":"7","ranks":[1,3]}]},)"));
  EXPECT_EQ(fragment.ranks.at(0).record.state.communicators.at(0).group_rank, 1u);
}

TEST(KinetoTest, CallOfTheSameExternalIdTellsTheSequenceNumber) {
  const Fragment fragment =
      Read(Trace({Event("cpu_op", "record_param_comms", "100", "1", 5, 20,
                        std::string("\"External id\":55,\"Seq\":41,") + kGroup),
                  Launch(500, 7),  // launched by another thread, long after
                  Kernel("ncclDevKernel_Generic_1(int)", 600, 8, 7,
                         std::string("\"External id\":55,") + kGroup)},
                 kDistributed));
  EXPECT_EQ(OnlyCommunicator(fragment).first_sequence, 41u);
  EXPECT_EQ(OnlyCommunicator(fragment).operations.at(0).operation, Operation::kAllReduce);
}

// Until 2.2: an external id that is only the correlation, inputs instead of named fields, and a
// mark.
TEST(KinetoTest, CallAroundTheLaunchTellsWhatOldKernelsDoNot) {
  const std::string inputs =
      R"("Input Dims":[[[4,8]],[],[],[],[],[],[],[]],"Concrete Inputs":["","337","93825114103440","0","","[]","[]","4"])";
  const std::string wait =
      R"("Input Dims":[[],[],[],[],[],[],[]],"Concrete Inputs":["338","0","0","","[]","[]","1"])";
  const Fragment fragment = Read(
      Trace({Event("cpu_op", "record_param_comms", "100", "1", 5, 20, inputs),
             Event("user_annotation", "nccl:all_reduce", "100", "1", 6, 10,
                   R"("Input type":["c10::Half"],"Input Dims":[[4,8]])"),
             Event("cpu_op", "record_param_comms", "100", "1", 30, 5, wait), Launch(10, 7),
             Kernel("ncclKernel_AllReduce_RING_LL_Sum_half(int)", 90, 8, 7, "\"External id\":7")},
            kDistributed));
  const diag::CommunicatorStep& comm = OnlyCommunicator(fragment);
  EXPECT_EQ(comm.first_sequence, 337u);
  EXPECT_EQ(comm.operations.at(0).data_type, DataType::kFloat16);
  EXPECT_EQ(comm.operations[0].bytes, 64u);
  EXPECT_EQ(fragment.ranks[0].record.state.communicators.at(0).name, "default_pg");
}

// A group by address alone, smaller than the world: nobody can know who is in it.
TEST(KinetoTest, GroupsOfUnknownMembersAreJoinedWithNobody) {
  const auto read = [](int rank) {
    const std::string inputs =
        R"("Concrete Inputs":["","3","93825114103440","0","","[]","[]","2"])";
    return Read(
        Trace({Event("cpu_op", "record_param_comms", "100", "1", 5, 20, inputs), Launch(10, 7),
               Kernel("ncclKernel_AllReduce_Sum(int)", 90, 8, 7)},
              R"("distributedInfo":{"rank":)" + std::to_string(rank) + R"(,"world_size":4},)"));
  };
  EXPECT_NE(OnlyCommunicator(read(0)).communicator, OnlyCommunicator(read(1)).communicator);
  EXPECT_THAT(read(0).notes, testing::Contains(HasSubstr("does not tell the members")));
}

TEST(KinetoTest, KernelsWithoutAnyCallMeetThoseOfTheSameSequence) {
  const auto read = [](const std::string& second, int stream) {
    return OnlyCommunicator(
               Read(
                   Trace({Kernel("ncclKernel_AllReduce_RING(int)", 10, 3, 1, "", 0, stream),
                          Kernel("ncclKernel_" + second + "_RING(int)", 20, 3, 2, "", 0, stream)})))
        .communicator;
  };
  EXPECT_EQ(read("AllGather", 14), read("AllGather", 22));
  EXPECT_NE(read("AllGather", 14), read("AllReduce", 14));
}

TEST(KinetoTest, WithoutADeviceGlooMarksLastAsLongAsTheCollective) {
  const Fragment fragment =
      Read(Trace({Event("user_annotation", "ProfilerStep#1", "100", "1", 0, 1000),
                  Event("user_annotation", "gloo:all_reduce", "100", "9", 100, 300,
                        R"("Input type":["float"],"Input Dims":[[8]])")},
                 R"("distributedInfo":{"backend":"gloo","rank":0,"world_size":2},)"));
  const diag::RankStep& step = fragment.ranks.at(0).record.steps.at(0);
  EXPECT_EQ(step.device, std::nullopt);
  EXPECT_EQ(step.communication_ns, 300'000u);
  EXPECT_THAT(OnlyCommunicator(fragment).duration_us, ElementsAre(300u));
}

TEST(KinetoTest, GraphKernelsShareTheirLaunch) {
  const Fragment fragment =
      Read(Trace({Launch(0, 3, "100", "cudaGraphLaunch"), Kernel("a", 10, 5, 3),
                  Kernel("b", 20, 5, 3), Kernel("c", 30, 5, 3)}));
  EXPECT_EQ(fragment.ranks.at(0).record.recording->compute_issue_latency.sum(), 60'000u);
}

TEST(KinetoTest, ShapesOfMatrixProductsComeFromTheirOperator) {
  const Fragment fragment = Read(Trace(
      {Event(
           "cpu_op", "aten::addmm", "100", "1", 0, 9,
           R"("External id":4,"Input Dims":[[30],[10,20],[20,30]],"Input type":["float","c10::Half","c10::Half"])"),
       Launch(3, 90), Kernel("ampere_fp16_s16816gemm_fp16_64x64", 20, 5, 90, "\"External id\":4"),
       Kernel("ampere_fp16_s16816gemm_fp16_64x64", 30, 5, 4, "\"External id\":4")}));
  const auto& gemms = fragment.ranks.at(0).record.recording->gemms;
  ASSERT_THAT(gemms, SizeIs(1));
  EXPECT_EQ(gemms[0].count, 1u);  // the second only repeats its correlation
  EXPECT_EQ(gemms[0].m, 10u);
  EXPECT_EQ(gemms[0].n, 30u);
  EXPECT_EQ(gemms[0].k, 20u);
  EXPECT_EQ(gemms[0].data_type, DataType::kFloat16);
}

// Correlations of both processes overlap; most of each device's were launched by its own process.
TEST(KinetoTest, SeveralProcessesBecomeSeveralRanks) {
  std::vector<std::string> events;
  for (int i = 1; i <= 10; ++i) {
    events.push_back(Launch(i, i, "100"));
    events.push_back(Launch(i, i + 8, "200"));
    events.push_back(Kernel("a", 20 + i, 1, i, "", 0));
    events.push_back(Kernel("b", 20 + i, 1, i + 8, "", 1));
    events.push_back(Kernel("b", 40 + i, 1, i + 8, "", 1));
  }
  const Fragment fragment = Read(Trace(events, kDistributed));
  ASSERT_THAT(fragment.ranks, SizeIs(2));
  EXPECT_EQ(fragment.ranks[0].record.pid, 100);
  EXPECT_EQ(fragment.ranks[0].record.recording->kernels, 10u);
  EXPECT_EQ(fragment.ranks[1].record.pid, 200);
  EXPECT_EQ(fragment.ranks[1].record.recording->kernels, 20u);
  EXPECT_EQ(fragment.ranks[0].rank, std::nullopt);  // the header's rank is that of one of them
  EXPECT_THAT(fragment.notes, testing::Contains(HasSubstr("several processes")));
}

TEST(KinetoTest, SeveralDevicesOfOneProcessAreOneRank) {
  const Fragment fragment = Read(Trace(
      {Launch(0, 1), Launch(0, 2), Kernel("a", 10, 10, 1, "", 0), Kernel("a", 15, 10, 2, "", 1)}));
  ASSERT_THAT(fragment.ranks, SizeIs(1));
  EXPECT_EQ(fragment.ranks[0].record.recording->busy_ns, 15'000u);
  EXPECT_THAT(fragment.notes, testing::Contains(HasSubstr("unions over all")));
}

TEST(KinetoTest, BrokenNumbersAreLeftOutAndCounted) {
  const Fragment fragment = Read(
      R"({"traceEvents":[
        {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":NaN,"dur":1},
        {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":9223372036854775808,"dur":1},
        {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":5,"dur":-1},
        {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":5},
        {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":5,"dur":1e300},
        {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":5,"dur":1,"args":{"stream":-1e400}},
        {"ph":"X","cat":"kernel","name":"a","pid":-1,"tid":{},"ts":5,"dur":1}]})");
  EXPECT_EQ(fragment.ranks.at(0).record.recording->kernels, 2u);
  EXPECT_THAT(fragment.notes, testing::Contains("4 events without a time or duration left out"));
  EXPECT_THAT(fragment.notes,
              testing::Contains("1 event with an impossible time or duration left out"));
}

TEST(KinetoTest, NamesThatAreNoUtf8AreCleaned) {
  const Fragment fragment =
      Read(Trace({Event("user_annotation", "bad\xff\xfename", "100", "1", 0, 5)}));
  EXPECT_EQ(fragment.ranks.at(0).record.steps.at(0).phases.at(0).name, "bad??name");
}

TEST(KinetoTest, FilesOfOtherThingsSayWhy) {
  EXPECT_THAT(Error("{\"a\":1}"), HasSubstr("no list of trace events"));
  EXPECT_THAT(Error("[]"), HasSubstr("none of its 0 events"));
  EXPECT_THAT(Error(R"([{"ph":"X","cat":"gfx","name":"x","ts":1,"dur":1}])"),
              HasSubstr("none of its 1 event "));
}

TEST(KinetoTest, RecognisesTracesByContent) {
  EXPECT_EQ(RecogniseKineto(Trace({Kernel("k", 0, 1, 1)})), 90);
  EXPECT_GT(RecogniseKineto(R"([{"ph":"X","ts":1,"cat":"kernel"}])"), 0);
  EXPECT_GT(RecogniseKineto(R"({"schemaVersion": 1, "distributedInfo": {"pg_config": [)"), 0);
  EXPECT_EQ(RecogniseKineto(R"({"schema":"1.0.1","nodes":[{"id":1}]})"), 0);
  EXPECT_EQ(RecogniseKineto("[[-1, 1, 37888, 7]]"), 0);
  EXPECT_EQ(RecogniseKineto("INFO: \"traceEvents\""), 0);
  EXPECT_EQ(RecogniseKineto(""), 0);
}

}  // namespace
}  // namespace flare::import
