// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/diag/import/import_testing.h"

namespace flare::import {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Record(int rank, int pid, uint64_t sequence, const std::string& us, uint64_t dump_us,
                   const std::string& name = "AllReduce") {
  return R"({"header": {"id": "0x7f8c", "rank": )" + std::to_string(rank) +
         R"(, "n_ranks": 4, "nnodes": 1}, "metadata": {"inspector_output_format_version": "v4.0", )"
         R"("dump_timestamp_us": )" +
         std::to_string(dump_us) + R"(, "hostname": "n1", "pid": )" + std::to_string(pid) +
         R"(}, "coll_perf": {"coll": ")" + name + R"(", "coll_sn": )" + std::to_string(sequence) +
         R"(, "coll_msg_size_bytes": 2097152, "coll_exec_time_us": )" + us +
         R"(, "coll_busbw_gbs": 387.2}})" + "\n";
}

constexpr uint64_t kDump = 1'711'800'000'000'000;

TEST(NcclInspectorTest, CollectivesBecomeStretchesOfTime) {
  const std::string lines = Record(1, 7, 10, "400", kDump) + Record(1, 7, 12, "500", kDump) +
                            Record(1, 7, 13, "600", kDump + 2'000'000);
  const Fragment fragment = Import({"a.jsonl", lines});
  ASSERT_EQ(fragment.ranks.size(), 1u);
  EXPECT_EQ(fragment.ranks[0].rank, Rank(1));
  const auto& steps = fragment.ranks[0].record.steps;
  ASSERT_EQ(steps.size(), 2u);
  ASSERT_EQ(steps[0].communicators.size(), 1u);
  EXPECT_THAT(steps[0].communicators[0].duration_us, ElementsAre(400, 0, 500));  // 0: not seen
  EXPECT_EQ(steps[0].communicators[0].first_sequence, 10u);
  EXPECT_EQ(steps[0].communicators[0].operations[0].bytes, 2u * 2097152);
  EXPECT_EQ(steps[1].start_unix_ns, kDump * 1000);
  EXPECT_EQ(steps[1].duration_ns, 2'000'000'000u);
}

TEST(NcclInspectorTest, KindsOfCollectivesAreCountedApart) {
  const std::string lines =
      Record(0, 7, 1, "400", kDump) + Record(0, 7, 1, "300", kDump, "AllGather");
  const auto& state = Import({"a.jsonl", lines}).ranks.at(0).record.state;
  ASSERT_EQ(state.communicators.size(), 2u);
  EXPECT_NE(state.communicators[0].communicator, state.communicators[1].communicator);
}

TEST(NcclInspectorTest, ImpossibleRecordsAreLeftOutAndCounted) {
  const std::string lines = Record(0, 7, 1, "400", kDump) + Record(4, 7, 1, "400", kDump) +
                            Record(0, 7, 2, "-3", kDump) + Record(0, 7, 3, "1e300", kDump) +
                            "{\"header\": 3}\n{\n\n" + std::string(100, '[') + "\n";
  const Fragment fragment = Import({"a.jsonl", lines});
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("4 lines that are no record of Inspector")));
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("2 collectives without a time")));
}

// One line of the sample is broken on purpose, one collective is not timed.
TEST(NcclInspectorTest, RecordedSamplesAreRead) {
  const std::vector<TestFile> files = TraceFiles(FLARE_TRACES, "rocm-cvs-ras", "inspector");
  if (files.empty()) GTEST_SKIP() << "no recorded samples";
  ASSERT_EQ(files.size(), 2u);
  const Fragment first = Import(files[0]);
  EXPECT_THAT(first.notes, Contains(HasSubstr("6 collectives of 5 processes")));
  EXPECT_THAT(first.notes, Contains(HasSubstr("1 line that")));
  EXPECT_THAT(first.notes, Contains(HasSubstr("1 collective without a time")));
  const Fragment second = Import(files[1]);
  EXPECT_THAT(second.notes, Contains(HasSubstr("4 collectives of 3 processes")));
  EXPECT_EQ(second.ranks.size(), 3u);
  EXPECT_EQ(second.ranks[0].world_size, 16u);
  // 16 ranks, 2 MiB in 390 us: 2 MiB x 2 x 15/16 / 390 us.
  const auto& operation = second.ranks[0].record.steps.at(0).communicators.at(0).operations.at(0);
  EXPECT_EQ(operation.bytes, 2097152u);
  EXPECT_EQ(operation.total_ns, 390'000u);
}

}  // namespace
}  // namespace flare::import
