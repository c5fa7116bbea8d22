// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/diag/import/fr_builder.h"
#include "tests/diag/import/import_testing.h"

// Dumps of four ranks that stand still. All made the same nine all-reduces before.
namespace flare::import {
namespace {

using diag::Verdict;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kNext = 10;

TestEntry Next(uint64_t sequence = kNext) {
  TestEntry entry;
  entry.sequence = sequence;
  entry.created_ms = sequence * 10;
  return entry;
}

std::vector<TestFile> Files(const std::vector<TestDump>& dumps) {
  std::vector<TestFile> files;
  for (size_t i = 0; i < dumps.size(); ++i) {
    files.push_back({"nccl_trace_rank_" + std::to_string(i), dumps[i].Json()});
  }
  return files;
}

std::vector<TestDump> FourWaiting() {
  std::vector<TestDump> dumps(4);
  for (TestDump& dump : dumps) dump.History(kNext - 1).Add(Next());
  return dumps;
}

TEST(FlightRecorderTest, RankWithoutTheCallIsMissing) {
  std::vector<TestDump> dumps = FourWaiting();
  dumps[2].entries.pop_back();
  dumps[2].entries.back().frames =
      R"([{"name": "all_reduce", "filename": "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", "line": 9}, {"name": "step", "filename": "/opt/train.py", "line": 41}])";
  const Verdict v = OnlyVerdict(Join(Files(dumps)));
  EXPECT_EQ(v.finding_class, "hang");
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(2));
  EXPECT_THAT(Numbers(v.victims), ElementsAre(0, 1, 3));
  EXPECT_THAT(v.summary, HasSubstr("3 ranks have waited for it in all-reduce #10"));
  EXPECT_EQ(
      v.evidence.front().text,
      "Rank 2: the last call in its dump is all-reduce #9 of group default_pg, finished, called "
      "from step (train.py:41)");
}

// How long the job had stood when the dumps were made is not told: too short a time to be sure.
TEST(FlightRecorderTest, MissingRankIsOnlySuspected) {
  std::vector<TestDump> dumps = FourWaiting();
  dumps[2].entries.pop_back();
  const JoinedJob joined = Join(Files(dumps));
  EXPECT_FALSE(Opens(OnlyVerdict(joined), joined));
}

struct Mismatch {
  const char* what;
  const char* cause;
  TestEntry odd;
  const char* text;
};

TestEntry With(std::string TestEntry::*field, const char* value) {
  TestEntry entry = Next();
  entry.*field = value;
  return entry;
}

TEST(FlightRecorderTest, OddCallIsAMismatch) {
  const Mismatch kTable[] = {
      {"operation", "collective_mismatch", With(&TestEntry::name, "nccl:all_gather"),
       "calls all-gather #10 of 4.0 KiB float32"},
      {"size", "collective_mismatch", With(&TestEntry::sizes, "[[2048]]"), "pass 4.0 KiB"},
      {"type", "collective_mismatch", With(&TestEntry::type, "Double"), "pass float32"},
  };
  for (const Mismatch& row : kTable) {
    std::vector<TestDump> dumps = FourWaiting();
    dumps[1].entries.back() = row.odd;
    dumps[1].entries.back().frames =
        R"([{"name": "loss", "filename": "/opt/train.py", "line": 7}])";
    const Verdict v = OnlyVerdict(Join(Files(dumps)));
    EXPECT_EQ(v.cause, row.cause) << row.what;
    EXPECT_TRUE(v.conclusive) << row.what;
    EXPECT_THAT(Numbers(v.ranks), ElementsAre(1)) << row.what;
    EXPECT_THAT(v.summary, HasSubstr(row.text)) << row.what;
    EXPECT_THAT(v.evidence.front().text, HasSubstr("called from loss (train.py:7)")) << row.what;
  }
}

TEST(FlightRecorderTest, SkippedCallIsSeenByWhatFollows) {
  std::vector<TestDump> dumps = FourWaiting();
  for (size_t i = 0; i < 4; ++i) {
    dumps[i].entries.back().name = i == 3 ? "nccl:broadcast" : "nccl:all_gather";
    TestEntry more = Next(11);
    more.name = "nccl:broadcast";
    if (i != 3) dumps[i].Add(more);
  }
  const Verdict v = OnlyVerdict(Join(Files(dumps)));
  EXPECT_EQ(v.cause, "collective_skipped");
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(3));
}

TEST(FlightRecorderTest, ShapesOfEqualSizeAndUnevenSplitsAgree) {
  std::vector<TestDump> dumps = FourWaiting();
  dumps[1].entries.back().sizes = "[[32, 32]]";
  EXPECT_EQ(OnlyVerdict(Join(Files(dumps))).cause, "cause_not_found");  // all inside
  for (size_t i = 0; i < 4; ++i) {
    dumps[i].entries.back().name = "nccl:all_to_all";
    dumps[i].entries.back().sizes = "[[" + std::to_string(100 + i) + "]]";
  }
  EXPECT_EQ(OnlyVerdict(Join(Files(dumps))).cause, "cause_not_found");
}

TEST(FlightRecorderTest, RankWhoseDeviceDoesNotFinishIsNamed) {
  std::vector<TestDump> dumps = FourWaiting();
  for (size_t i : {0u, 1u, 3u}) {
    dumps[i].entries.back().state = "completed";
    dumps[i].Add(Next(11));
  }
  dumps[2].Add(Next(11));
  const Verdict v = OnlyVerdict(Join(Files(dumps)));
  EXPECT_EQ(v.cause, "stuck_kernel");
  EXPECT_FALSE(v.conclusive);
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(2));
  EXPECT_THAT(Numbers(v.victims), ElementsAre(0, 1, 3));
  EXPECT_THAT(v.summary, HasSubstr("has not finished all-reduce #10"));
}

TEST(FlightRecorderTest, RankWhoseDeviceHasNotBegunIsNamed) {
  std::vector<TestDump> dumps = FourWaiting();
  for (size_t i : {0u, 1u, 2u}) dumps[i].entries.back().state = "started";
  const Verdict v = OnlyVerdict(Join(Files(dumps)));
  EXPECT_EQ(v.cause, "stuck_kernel");
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(3));
  EXPECT_THAT(v.summary, HasSubstr("its device has not begun, all-reduce #10"));
}

// A broadcast is done for its root before the others have it.
TEST(FlightRecorderTest, RootThatIsDoneLeavesNobodyBehind) {
  std::vector<TestDump> dumps = FourWaiting();
  for (TestDump& dump : dumps) dump.entries.back().name = "nccl:broadcast";
  dumps[0].entries.back().state = "completed";
  const Verdict v = OnlyVerdict(Join(Files(dumps)));
  EXPECT_THAT(v.ranks, IsEmpty());
}

TEST(FlightRecorderTest, GroupsInOppositeOrderAreACycle) {
  std::vector<TestDump> dumps(2);
  for (size_t i = 0; i < 2; ++i) {
    dumps[i].groups = {{"0", "default_pg", "[0, 1]"}, {"1", "tp", "[0, 1]"}};
    dumps[i].History(kNext - 1);
    TestEntry call = Next();
    if (i == 1) {
      call.group = "1";
      call.description = "tp";
      call.sequence = 1;
    }
    dumps[i].Add(call);
  }
  const Verdict v = OnlyVerdict(Join(Files(dumps)));
  EXPECT_EQ(v.cause, "collective_order_cycle");
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(0, 1));
}

TEST(FlightRecorderTest, PickleAndJsonSayTheSame) {
  TestDump dump;
  dump.History(3).Add(Next(4));
  const Fragment json = Import({"trace_1", dump.Json()});
  const Fragment pickle = Import({"trace_1", PickleOfJson(dump.Json())});
  ASSERT_EQ(json.ranks.size(), 1u);
  ASSERT_EQ(pickle.ranks.size(), 1u);
  const diag::RankState& a = json.ranks[0].record.state;
  const diag::RankState& b = pickle.ranks[0].record.state;
  EXPECT_EQ(a.at_unix_ns, b.at_unix_ns);
  EXPECT_EQ(a.open_calls.size(), b.open_calls.size());
  ASSERT_EQ(b.communicators.size(), 1u);
  EXPECT_EQ(a.communicators[0].communicator, b.communicators[0].communicator);
  EXPECT_EQ(b.communicators[0].launched, 5u);
  EXPECT_EQ(b.communicators[0].completed, 4u);
  EXPECT_EQ(b.communicators[0].recent.size(), 4u);
  EXPECT_EQ(b.communicators[0].recent[0].bytes, 4096u);
}

TEST(FlightRecorderTest, RankIsToldByGroupsThenBySendsThenByTheName) {
  TestDump dump;
  dump.groups.push_back({"1", "tp", "[2, 3]"});
  dump.groups.push_back({"2", "dp", "[1, 3]"});
  EXPECT_EQ(Import({"any", dump.Json()}).ranks[0].rank, Rank(3));  // the only one in all three
  dump.groups.pop_back();
  TestEntry send = Next();
  send.name = "nccl:send 1->0";
  send.group = "1";
  send.point_to_point = true;
  dump.Add(send);
  EXPECT_EQ(Import({"any", dump.Json()}).ranks[0].rank, Rank(3));  // the second of [2, 3]
  dump.entries.clear();
  const Fragment named = Import({"/tmp/nccl_trace_rank_2.json", dump.Json()});
  EXPECT_EQ(named.ranks[0].rank, Rank(2));
  EXPECT_THAT(named.notes, Contains(HasSubstr("taken from the name of the file")));
  EXPECT_EQ(Import({"nccl_trace_rank_1", dump.Json()}).ranks[0].rank, std::nullopt);  // not in tp
}

TEST(FlightRecorderTest, StatusTellsWhatARankWithoutOpenCallsHasDone) {
  std::vector<TestDump> dumps(4);
  for (size_t i = 0; i < 4; ++i) {
    const std::string last = i == 1 ? "9" : "10";
    dumps[i].status = R"("0": {"last_enqueued_collective": )" + last +
                      R"(, "last_started_collective": -1, "last_completed_collective": 9})";
    if (i != 1) dumps[i].Add(Next());
  }
  const Verdict v = OnlyVerdict(Join(Files(dumps)));
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(1));
}

// Gloo marks what has ended as retired only.
TEST(FlightRecorderTest, RetiredCallsHaveEnded) {
  TestDump dump;
  dump.Add(Next());
  dump.entries[0].name = "gloo:all_reduce";
  dump.entries[0].retired = true;
  EXPECT_THAT(Import({"trace_0", dump.Json()}).ranks[0].record.state.open_calls, IsEmpty());
}

TEST(FlightRecorderTest, CoalescedEntriesAreOneCall) {
  TestDump dump;
  for (const char* name : {"nccl:all_gather_into_tensor_coalesced",
                           "nccl:all_gather_into_tensor_coalesced", "nccl:coalesced"}) {
    TestEntry entry = Next();
    entry.name = name;
    if (entry.name == "nccl:coalesced") entry.sizes.clear();
    dump.Add(entry);
  }
  const diag::RankState state = Import({"trace_0", dump.Json()}).ranks[0].record.state;
  ASSERT_EQ(state.open_calls.size(), 1u);
  EXPECT_EQ(state.open_calls[0].operation, Operation::kAllGather);
  EXPECT_EQ(state.open_calls[0].bytes, 8192u);
}

TEST(FlightRecorderTest, BrokenEntriesAreLeftOutAndCounted) {
  TestDump dump;
  dump.Add(Next()).Add(With(&TestEntry::state, "lost")).Add(With(&TestEntry::name, ""));
  dump.Add(With(&TestEntry::sizes, "[[9223372036854775807, 9223372036854775807]]"));
  dump.Add(With(&TestEntry::sizes, "[[-1]]"));
  dump.version = "3.0";
  const Fragment fragment = Import({"trace_0", dump.Json()});
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("2 entries without a name, state or number")));
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("version \"3.0\" is not known")));
}

TEST(FlightRecorderTest, CutOffPickleGivesTheEntriesBeforeTheCut) {
  TestDump dump;
  dump.History(3).Add(Next(4));
  const std::string whole = PickleOfJson(dump.Json());
  size_t most = 0;
  for (size_t size = 2; size < whole.size(); ++size) {
    const std::unique_ptr<Input> input = Input::FromMemory("trace_0", whole.substr(0, size));
    Fragment fragment;
    for (const Importer& importer : Importers()) {
      if (std::string(importer.kind) != "flight-recorder") continue;
      if (!importer.read(input.get(), &fragment).ok()) break;
      EXPECT_THAT(fragment.notes, Contains(HasSubstr("cut off")));
      const auto& comms = fragment.ranks.at(0).record.state.communicators;
      const size_t calls = comms.empty() ? 0 : comms[0].recent.size();
      EXPECT_GE(calls, most);
      most = calls;
    }
  }
  EXPECT_EQ(most, 4u);
}

TEST(FlightRecorderTest, PickleWithCodeIsRefused) {
  EXPECT_THAT(ImportError({"trace_0",
                           std::string("\x80\x02}(X\x09\x00\x00\x00pg_statuscos\nsystem\n", 32)}),
              HasSubstr("the instruction GLOBAL would name or call something of Python"));
  EXPECT_THAT(ImportError({"weights.pkl", "\x80\x02]."}),
              HasSubstr("no entries of a Flight Recorder"));
}

// ---- Recorded: PyTorch 2.9 and Megatron on 16 ranks. The folders' names say what was injected.

std::vector<TestFile> Recorded(const std::string& scenario) {
  return TraceFiles(FLARE_TRACES, "nvrx-fr/" + scenario, "_dump_");
}

// The reference tool prints rank 12 only: of group 74, the one that has called less. Rank 14 has
// called all its peers have, but its device stands at #20530, which they have finished: it is held
// up by the same fault, which was injected on both.
TEST(FlightRecorderTest, RecordedGpuErrorNamesBothRanks) {
  const std::vector<TestFile> files = Recorded("gpu_error_1st");
  if (files.empty()) GTEST_SKIP() << "no recorded dumps";
  ASSERT_EQ(files.size(), 16u);
  const Verdict v = OnlyVerdict(Join(files));
  EXPECT_EQ(v.cause, "stuck_kernel");
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(12, 14));
  EXPECT_THAT(v.summary,
              HasSubstr("in all-to-all #20537 of group EXPERT_MODEL_PARALLEL_GROUP (74)"));
}

// These two ranks have no entry at all: their files say which groups they are in, and how far.
TEST(FlightRecorderTest, RecordedLockedGilNamesTheMissingRanks) {
  const std::vector<TestFile> files = Recorded("lock_gil_1st");
  if (files.empty()) GTEST_SKIP() << "no recorded dumps";
  const JoinedJob joined = Join(files);
  EXPECT_EQ(joined.job.world_size, 16u);
  const Verdict v = OnlyVerdict(joined);
  EXPECT_EQ(v.finding_class, "hang");
  EXPECT_THAT(Numbers(v.ranks), ElementsAre(9, 14));
  EXPECT_EQ(v.victims.size(), 14u);
  EXPECT_THAT(v.summary,
              HasSubstr("in all-to-all #45265 of group EXPERT_MODEL_PARALLEL_GROUP (72)"));
}

TEST(FlightRecorderTest, RecordedDumpsTellTheirRanksWithoutTheirNames) {
  for (const char* scenario : {"gpu_error_1st", "lock_gil_1st"}) {
    std::vector<TestFile> files = Recorded(scenario);
    if (files.empty()) GTEST_SKIP() << "no recorded dumps";
    for (TestFile& file : files) {
      const auto number = static_cast<uint32_t>(std::stoul(file.name.substr(6)));
      file.name = "dump";
      EXPECT_EQ(Import(file).ranks[0].rank, Rank(number));
    }
  }
}

}  // namespace
}  // namespace flare::import
