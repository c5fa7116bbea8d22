// SPDX-License-Identifier: Apache-2.0
// Detectors of slow steps on step times that others recorded: what must be found, and above all
// what must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <string>
#include <vector>

#include "diag/detect/slow_ranks.h"
#include "diag/detect/slow_shift.h"
#include "diag/metrics/run_comparison.h"
#include "tests/diag/import/import_testing.h"

namespace flare::import {
namespace {

using diag::Verdict;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

struct RecordedSeries {
  std::string name;
  std::vector<double> seconds;
};

// All numbers of a list "key":[...] of one JSON line; of pairs the second ones.
std::vector<double> Numbers(std::string_view line, const std::string& key, size_t of_each = 1) {
  std::vector<double> numbers;
  const size_t begin = line.find("\"" + key + "\":[");
  if (begin == std::string_view::npos) return numbers;
  std::string_view rest = line.substr(begin + key.size() + 4);
  size_t seen = 0;
  while (!rest.empty()) {
    const size_t at = rest.find_first_not_of("[,");
    if (at == std::string_view::npos || (rest[at] == ']' && of_each == 1)) break;
    if (rest[at] == ']') {
      if (rest.substr(at).starts_with("]]")) break;
      rest.remove_prefix(at + 1);
      continue;
    }
    rest.remove_prefix(at);
    double value = 0;
    const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (result.ec != std::errc()) break;
    if (++seen % of_each == 0) numbers.push_back(value);
    rest.remove_prefix(static_cast<size_t>(result.ptr - rest.data()));
  }
  return numbers;
}

std::string Text(std::string_view line, const std::string& key) {
  const size_t at = line.find("\"" + key + "\":\"");
  if (at == std::string_view::npos) return "";
  const std::string_view rest = line.substr(at + key.size() + 4);
  return std::string(rest.substr(0, rest.find('"')));
}

std::vector<std::string> Lines(const TestFile& file) {
  std::vector<std::string> lines;
  const std::unique_ptr<Input> input = Input::FromMemory(file.name, file.bytes);
  const Result<std::string> all = input->ReadAll(size_t{64} << 20);
  EXPECT_TRUE(all.ok());
  std::string_view rest = *all;
  while (!rest.empty()) {
    lines.emplace_back(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.size(), lines.back().size() + 1));
  }
  return lines;
}

std::vector<RecordedSeries> Golden(const TestFile& file) {
  std::vector<RecordedSeries> all;
  for (const std::string& line : Lines(file)) {
    all.push_back({Text(line, "path") + " " + Text(line, "date"), Numbers(line, "seconds")});
  }
  return all;
}

// One rank with these steps, as an importer would make it.
diag::Job JobOf(const std::vector<double>& seconds) {
  diag::Job job;
  job.recorded = true;
  diag::RankRecord& record = job.ranks[Rank(0)];
  uint64_t at = 1'000'000'000;
  for (size_t i = 0; i < seconds.size(); ++i) {
    diag::RankStep step;
    step.step = StepId(i + 1);
    step.duration_ns = static_cast<uint64_t>(seconds[i] * 1e9);
    step.start_unix_ns = at;
    at += step.duration_ns;
    record.steps.push_back(step);
  }
  return job;
}

std::vector<Verdict> Judge(const std::vector<double>& seconds) {
  const diag::Job job = JobOf(seconds);
  const diag::RankStep& last = job.ranks.at(Rank(0)).steps.back();
  return diag::RunDetectors(job, last.start_unix_ns + last.duration_ns);
}

TEST(StepHistoryTest, HealthySubmissionsOfMlperfAreSilent) {
  FLARE_TRACE_FILES(files, "mlperf", "step-timings");
  size_t runs = 0, with_steps = 0;
  for (const std::string& line : Lines(files[0])) {
    ++runs;
    for (const std::vector<double>& seconds : {Numbers(line, "step_s"), [&] {
                                                 std::vector<double> inverse;
                                                 for (double rate : Numbers(line, "throughput", 2))
                                                   inverse.push_back(1 / rate);
                                                 return inverse;
                                               }()}) {
      if (seconds.empty()) continue;
      ++with_steps;
      for (const Verdict& v : Judge(seconds)) ADD_FAILURE() << Text(line, "path") << v.summary;
    }
  }
  EXPECT_EQ(runs, 83u);
  EXPECT_EQ(with_steps, 107u);  // the others tell no times
}

// Of 723 series one alarms, and it is right: after the job was resumed at step 51 every step takes
// 17 times as long, to the end.
TEST(StepHistoryTest, GoldenSeriesOfMegatronAlarmOnlyWhereStepsReallyBecameLonger) {
  FLARE_TRACE_FILES(files, "megatron-golden", "iteration-times-head");
  const std::vector<RecordedSeries> all = Golden(files[0]);
  ASSERT_EQ(all.size(), 723u);
  std::vector<std::string> alarms;
  size_t times = 0;
  for (const RecordedSeries& series : all) {
    times += series.seconds.size();
    for (const Verdict& v : Judge(series.seconds)) alarms.push_back(series.name + ": " + v.summary);
  }
  EXPECT_EQ(times, 93'389u);
  EXPECT_THAT(alarms, ElementsAre(AllOf(HasSubstr("resume_torch_dist"), HasSubstr("Since step 52"),
                                        HasSubstr("s instead of 288"))));
}

TEST(StepHistoryTest, OtherVersionsOfTheSameTestAreComparedWithCertainty) {
  FLARE_TRACE_FILES(files, "megatron-golden", "iteration-times-history");
  const std::vector<RecordedSeries> all = Golden(files[0]);
  ASSERT_EQ(all.size(), 8u);
  for (const RecordedSeries& series : all) {
    EXPECT_THAT(Judge(series.seconds), IsEmpty()) << series.name;
  }
  const auto compare = [&](const std::string& name) {
    const RecordedSeries *before = nullptr, *after = nullptr;
    for (const RecordedSeries& series : all) {
      if (series.name.find(name) == std::string::npos) continue;
      if (series.name.ends_with("2025-09-04")) before = &series;
      if (series.name.ends_with("2026-04-16")) after = &series;
    }
    EXPECT_TRUE(before && after) << name;
    return before && after ? diag::CompareRuns(before->seconds, after->seconds)
                           : diag::RunComparison();
  };
  const diag::RunComparison t5 = compare("t5_release/golden_values_dev_dgx_h100");
  EXPECT_NEAR(t5.first_median, 0.1591, 0.0005);
  EXPECT_NEAR(t5.second_median, 0.1996, 0.0005);
  EXPECT_GT(t5.low, 1.2);
  EXPECT_LT(t5.high, 1.32);
  EXPECT_LT(t5.false_alarm, 1e-9);
  // "Unchanged": bert became 2.6 % faster, if at all; of gpt too few steps are independent to say.
  const diag::RunComparison bert = compare("bert_release/golden_values_dev_dgx_h100");
  EXPECT_NEAR(bert.ratio, 0.2869 / 0.2946, 0.005);
  EXPECT_LT(bert.high, 1.01);
  EXPECT_GT(bert.low, 0.93);
  const diag::RunComparison gpt = compare("gpt3_15b_8t_release/golden_values_dev_dgx_h100");
  EXPECT_NEAR(gpt.ratio, 1.4349 / 1.4331, 0.002);
  EXPECT_EQ(gpt.low, 0);
}

// Real noise of ten thousand GPUs with a rise of 5 % put in: how many steps it takes.
TEST(StepHistoryTest, FivePercentShowWithinAFewStepsInRecordedNoise) {
  FLARE_TRACE_FILES(files, "mlperf", "step-timings");
  size_t runs = 0, in_twelve = 0, in_thirty = 0;
  for (const std::string& line : Lines(files[0])) {
    const std::vector<double> recorded = Numbers(line, "step_s");
    if (recorded.size() < 150) continue;
    ++runs;
    const auto found = [&](size_t after) {
      std::vector<double> seconds(recorded.begin(), recorded.begin() + 110 + after);
      // Steps of the fastest jobs are too short for a minute: each stands for a hundred.
      for (size_t i = 0; i < seconds.size(); ++i) seconds[i] *= i < 110 ? 100 : 105;
      const std::vector<Verdict> verdicts = Judge(seconds);
      return verdicts.size() == 1 && verdicts[0].cause == "cause_not_found";
    };
    in_twelve += found(12);
    in_thirty += found(30);
  }
  EXPECT_EQ(runs, 24u);
  EXPECT_GE(in_twelve, 10u);
  EXPECT_GE(in_thirty, 21u);
}

std::vector<Verdict> JudgeTable(const TestFile& file) {
  JoinedJob joined = Join({file});
  EXPECT_EQ(joined.job.ranks.size(), 10u);
  return VerdictsOf(joined);
}

bool Names(const Verdict& verdict, const std::vector<uint32_t>& ranks) {
  return import::Numbers(verdict.ranks) == ranks;
}

// Worker 6 is above the others at times 1811 to 1891, and again at 1931 and 1941: one episode here.
TEST(StepHistoryTest, StragglerThatCameAndWentIsNamed) {
  FLARE_TRACE_FILES(files, "alibaba-pai-minibatch", "job_1_norm");
  const std::vector<Verdict> verdicts = JudgeTable(files[0]);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_THAT(import::Numbers(verdicts[0].ranks), ElementsAre(6));
  EXPECT_THAT(verdicts[0].summary, AllOf(HasSubstr("from step 1811 to 1941"), HasSubstr("over")));
  EXPECT_FALSE(verdicts[0].conclusive);
}

TEST(StepHistoryTest, SteadyDifferencesBetweenWorkersAreNoFault) {
  FLARE_TRACE_FILES(files, "alibaba-pai-minibatch", "job_2_norm");
  EXPECT_THAT(JudgeTable(files[0]), IsEmpty());
}

// Workers 6, 7, 8, and 9 in part, rise in the last fifth, by 13 to 29 %. With four of ten above the
// median it is not beyond chance for all of them; no other is named.
TEST(StepHistoryTest, SeveralStragglersTogetherAreNamed) {
  FLARE_TRACE_FILES(files, "alibaba-pai-minibatch", "job_3_norm");
  const std::vector<Verdict> verdicts = JudgeTable(files[0]);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_FALSE(verdicts[0].ranks.empty());
  EXPECT_THAT(import::Numbers(verdicts[0].ranks), testing::IsSubsetOf({6u, 7u, 8u, 9u}));
}

// Workers 0, 5, 6, 7 and 8 take three times as long as the others all along, and 5 and 6 jump to
// four times that in the last fifth.
TEST(StepHistoryTest, SteadyStragglersAndThoseThatBecomeWorseAreToldApart) {
  FLARE_TRACE_FILES(files, "alibaba-pai-minibatch", "job_4_norm");
  const std::vector<Verdict> verdicts = JudgeTable(files[0]);
  size_t jump = 0, steady = 0;
  for (const Verdict& v : verdicts) {
    EXPECT_THAT(v.summary, Not(HasSubstr("Rank 1 ")));
    if (Names(v, {5, 6})) ++jump;
    if (!Names(v, {0, 5, 6, 7, 8})) continue;
    ++steady;
    EXPECT_FALSE(v.conclusive);
    EXPECT_THAT(v.summary, HasSubstr("times as long"));
  }
  EXPECT_EQ(jump, 1u);
  EXPECT_EQ(steady, 1u);
  for (const Verdict& v : verdicts) SCOPED_TRACE(v.summary);
}

}  // namespace
}  // namespace flare::import
