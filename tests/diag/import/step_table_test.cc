// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/diag/import/import_testing.h"

namespace flare::import {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(StepTableTest, RanksStepsAndUnitsAreFoundByTheirNames) {
  const Fragment fragment =
      Import({"t.csv",
              "Step,Global Rank,\"Step Time (ms)\",note\r\n"
              "1,0,1000,a\r\n1,1,1100,\"b, c\"\r\n2,0,1010,\r\n2,1,1120,\r\n"});
  ASSERT_EQ(fragment.ranks.size(), 2u);
  const auto& steps = fragment.ranks[1].record.steps;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(fragment.ranks[1].rank, Rank(1));
  EXPECT_EQ(steps[1].step.value, 2u);
  EXPECT_EQ(steps[1].duration_ns, 1'120'000'000u);
  EXPECT_THAT(fragment.notes, Not(Contains(HasSubstr("unit"))));
}

TEST(StepTableTest, JsonLinesAreATableToo) {
  const Fragment fragment = Import({"t.jsonl",
                                    "{\"_step\": 3, \"train/step_time\": 1.5, \"rank\": 0, "
                                    "\"timestamp\": 1714564800.5}\n"
                                    "{\"_step\": 4, \"train/step_time\": 1.25, \"rank\": 0, "
                                    "\"timestamp\": 1714564802.0}\nnot json\n"});
  ASSERT_EQ(fragment.ranks.size(), 1u);
  const auto& steps = fragment.ranks[0].record.steps;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].step.value, 3u);
  EXPECT_EQ(steps[0].start_unix_ns, 1'714'564'799'000'000'000u);
  EXPECT_EQ(steps[1].duration_ns, 1'250'000'000u);
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("taken for seconds")));
}

TEST(StepTableTest, OtherTablesAreNotTaken) {
  for (const char* text : {"a,b,c\n1,2,3\n", "name,time\nx,1\n", "step_time\n1\n2\n",
                           ",0,1,2\njob_00,0.1,0.2,0.3\n"}) {
    const std::unique_ptr<Input> input = Input::FromMemory("t", text);
    const Result<const Importer*> importer = ChooseImporter(*input, "");
    EXPECT_TRUE(!importer.ok() || std::string((*importer)->kind) != "step-table") << text;
  }
}

TEST(StepTableTest, HostileRowsAreLeftOutAndCounted) {
  std::string rows = "step,worker,batch_time\n";
  for (const char* row : {"1,0,nan", "2,0,-1", "3,-5,1", "4,1e99,1", "5,0.5,1", "x,y,z", ",,",
                          "-7,0,1e999", "\"", "6", "7,0,1"}) {
    rows += row + std::string("\n");
  }
  const Fragment fragment = Import({"t.csv", rows});
  ASSERT_EQ(fragment.ranks.size(), 1u);
  EXPECT_EQ(fragment.ranks[0].record.steps.size(), 1u);
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("rows without a time or a rank left out")));
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("impossible time left out")));
  EXPECT_THAT(ImportError({"t.csv", "step,worker,batch_time\nx,y,z\n"}),
              HasSubstr("a table of step times without any"));
}

TEST(StepTableTest, RecordedTablesOfWorkersAreReadWhole) {
  struct Case {
    const char* file;
    size_t steps;
  };
  for (const Case& c :
       {Case{"job_1_norm", 300}, Case{"job_3_norm", 249}, Case{"job_4_norm", 2183}}) {
    FLARE_TRACE_FILES(files, "alibaba-pai-minibatch", c.file);
    const Fragment fragment = Import(files[0]);
    ASSERT_EQ(fragment.ranks.size(), 10u);
    EXPECT_NEAR(static_cast<double>(fragment.ranks[0].record.steps.size()),
                static_cast<double>(c.steps), 1);
  }
}

}  // namespace
}  // namespace flare::import
