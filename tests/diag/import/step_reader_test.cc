// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <deque>
#include <string>

#include "diag/metrics/run_comparison.h"
#include "diag/metrics/statistics.h"
#include "diag/metrics/step_series.h"
#include "tests/diag/import/import_testing.h"

namespace flare::import {
namespace {

using diag::RankStep;
using diag::Verdict;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string Format(const char* format, ...) {
  char text[1024];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  return text;
}

std::string MegatronLine(int iteration, double ms, int batch = 512) {
  return Format(
      " iteration %8d/  100000 | consumed samples: %12d | elapsed time per iteration (ms): %.1f | "
      "learning rate: 1.5E-04 | global batch size: %5d | lm loss: 2.1E+00 | loss scale: 1.0 |\n",
      iteration, iteration * batch, ms, batch);
}

const std::deque<RankStep>& Steps(const Fragment& fragment) {
  EXPECT_EQ(fragment.ranks.size(), 1u);
  static const std::deque<RankStep> none;
  return fragment.ranks.empty() ? none : fragment.ranks[0].record.steps;
}

double Ms(const RankStep& step) { return static_cast<double>(step.duration_ns) * 1e-6; }

std::vector<double> Seconds(const Fragment& fragment) {
  std::vector<double> seconds;
  for (const RankStep& step : Steps(fragment)) seconds.push_back(Ms(step) * 1e-3);
  return seconds;
}

TEST(StepReaderTest, MegatronTellsTimeAndWork) {
  const Fragment fragment =
      Import({"log", "using world size: 64, data-parallel size: 8\n" + MegatronLine(1, 9000) +
                         "some other line\n" + MegatronLine(2, 1234.5)});
  ASSERT_EQ(Steps(fragment).size(), 2u);
  const RankStep& step = Steps(fragment)[1];
  EXPECT_EQ(step.step.value, 2u);
  EXPECT_NEAR(Ms(step), 1234.5, 1e-6);
  EXPECT_EQ(step.work, 512);
  EXPECT_EQ(fragment.ranks[0].record.work_unit, "samples");
  EXPECT_EQ(fragment.ranks[0].rank, Rank(0));
  EXPECT_EQ(fragment.ranks[0].world_size, 64u);
  EXPECT_FALSE(fragment.absolute_time);
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("which rank tells the steps is not said")));
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("too few to see")));
}

TEST(StepReaderTest, TimesAndRanksAreTakenWhereTold) {
  const Fragment fragment = Import(
      {"log",
       "[rank7]: [2024-05-01 12:00:10.500000] iteration 10/ 50 | elapsed time per iteration (ms): "
       "2000.0 | throughput per GPU (TFLOP/s/GPU): 400.0 | global batch size: 8 |\n"
       "[rank7]: [2024-05-01 12:00:12.600000] iteration 11/ 50 | elapsed time per iteration (ms): "
       "2100.0 | throughput per GPU (TFLOP/s/GPU): 381.0 | global batch size: 8 |\n"});
  ASSERT_EQ(Steps(fragment).size(), 2u);
  EXPECT_EQ(fragment.ranks[0].rank, Rank(7));
  EXPECT_TRUE(fragment.absolute_time);
  EXPECT_EQ(Steps(fragment)[0].start_unix_ns, 1'714'564'808'500'000'000u);
  EXPECT_EQ(fragment.ranks[0].record.work_unit, "FLOP");
  EXPECT_NEAR(Steps(fragment)[1].work, 381e12 * 2.1, 1e9);
  EXPECT_THAT(fragment.notes, Contains("times tell no zone; taken as UTC"));
}

TEST(StepReaderTest, EachDialectIsUnderstood) {
  struct Case {
    const char* framework;
    std::string log;
    uint64_t step;  // the last one
    double ms;
  };
  const Case cases[] = {
      {"DeepSpeed", "steps: 10 loss: 7.4321 iter time (s): 1.250 samples/sec: 204.8\n", 10, 1250},
      {"DeepSpeed",
       "[2024-05-01 12:34:50,000] [INFO] [timer.py:260:stop] epoch=0/micro_step=20/global_step=10, "
       "RunningAvgSamplesPerSec=43.1, CurrSamplesPerSec=43.4, MemAllocated=1.0GB\n"
       "[2024-05-01 12:35:05,000] [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=20, "
       "RunningAvgSamplesPerSec=43.1, CurrSamplesPerSec=43.4, MemAllocated=1.0GB\n",
       20, 1500},
      {"NeMo",
       "Epoch 0: :   1%| | 20/2000 [00:56<1:33:25, 2.83s/it, v_num=0, reduced_train_loss=9.1, "
       "global_step=19.00, consumed_samples=2560.0, train_step_timing in s=2.750]\n",
       19, 2750},
      {"NeMo",
       "Training epoch 0, iteration 10/99 | lr: 1.5e-06 | global_batch_size: 512 | global_step: 10 "
       "| reduced_train_loss: 11.03 | train_step_timing in s: 13.07 | consumed_samples: 5632\n",
       10, 13070},
      {"torchtitan",
       "[rank0]:[titan] 2025-01-01 00:00:00,000 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  "
       "7.1  memory: 26.9GiB(33.7%)  tps: 5,000  tflops: 88.2  mfu: 28.3%\x1b[39m\n"
       "[rank0]:[titan] 2025-01-01 00:00:20,000 - root - INFO - step: 20  loss:  7.0  memory: "
       "26.9GiB(33.7%)  tps: 5,000  tflops: 88.2  mfu: 28.3%\n",
       20, 2000},
      {"MLPerf logging",
       ":::MLLOG {\"time_ms\": 1696466357371, \"key\": \"global_batch_size\", \"value\": 128}\n"
       ":::MLLOG {\"time_ms\": 1696466368958, \"key\": \"tracked_stats\", \"value\": "
       "{\"throughput\": 256.0}, \"metadata\": {\"step\": 4194304}}\n",
       1, 500},
      {"ATorch",
       "[2025-04-21T23:53:58.000000] [426] [4158e1da] [AtorchTrainerV2] [#step] [BEGIN] "
       "{\"global_step\": 177019, \"epoch\": 0}\n"
       "[2025-04-21T23:54:18.500000] [426] [4158e1da] [AtorchTrainerV2] [#step] [END] "
       "{\"global_step\": 177020, \"epoch\": 0}\n",
       177020, 20500},
      {"a progress bar",
       "  1%|1         | 10/1000 [00:10<16:30,  1.00s/it]\r"
       "  7%|7         | 70/1000 [01:40<23:15,  1.50s/it]\r",
       70, 1500},
  };
  for (const Case& c : cases) {
    const Fragment fragment = Import({"log", c.log});
    EXPECT_EQ(fragment.framework, c.framework);
    if (fragment.ranks.empty() || fragment.ranks[0].record.steps.empty()) {
      ADD_FAILURE() << c.log;
      continue;
    }
    const RankStep& last = fragment.ranks[0].record.steps.back();
    EXPECT_EQ(last.step.value, c.step) << c.log;
    EXPECT_NEAR(Ms(last), c.ms, 0.01) << c.log;
  }
}

TEST(StepReaderTest, ProgressBarsOfOtherWorkAreNotMixedIn) {
  std::string log;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int i = 0; i <= 1000; i += 100) {
      log += Format("Epoch %d:  %d%%|###| %d/1000 [%02d:%02d<01:41,  5.00it/s, v_num=0]\r", epoch,
                    i / 10, i, i / 5 / 60, i / 5 % 60);
    }
    for (int i = 0; i <= 100; i += 10) {
      log += Format("Validation DataLoader 0:  %d%%|###| %d/100 [00:%02d<00:01, 2.00it/s]\r", i, i,
                    i / 2);
    }
  }
  const Fragment fragment = Import({"log", log});
  ASSERT_EQ(Steps(fragment).size(), 9u);  // 200 s in pieces of 60 s, three times
  for (const RankStep& step : Steps(fragment)) EXPECT_NEAR(Ms(step), 200, 1e-6);
  EXPECT_EQ(Steps(fragment).back().step.value, 2900u);
}

TEST(StepReaderTest, ImpossibleTimesAreLeftOutAndCounted) {
  std::string log = MegatronLine(1, 1000);
  for (const char* time : {"nan", "-5.0", "inf", "1e300", "-nan", "0.0"}) {
    log += Format(" iteration 2/ 10 | elapsed time per iteration (ms): %s | loss: 1 |\n", time);
  }
  log += " iteration 99999999999999999999999/ 10 | elapsed time per iteration (ms): 1.0 |\n";
  log += " iteration /  | elapsed time per iteration (ms):\n";
  log += MegatronLine(3, 1000);
  const Fragment fragment = Import({"log", log});
  EXPECT_EQ(Steps(fragment).size(), 2u);
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("steps with an impossible time left out")));
}

TEST(StepReaderTest, StepsToldByEveryRankCountOnce) {
  std::string log;
  for (int i = 1; i <= 20; ++i) {
    for (int rank = 0; rank < 8; ++rank) log += MegatronLine(i, 1000);
  }
  EXPECT_EQ(Steps(Import({"log", log})).size(), 20u);
}

TEST(StepReaderTest, RestartRepeatsWhatWasLost) {
  std::string log;
  for (int i = 1; i <= 100; ++i) log += MegatronLine(i, 1000);
  for (int i = 51; i <= 120; ++i) log += MegatronLine(i, 1100);
  const Fragment fragment = Import({"log", log});
  ASSERT_EQ(Steps(fragment).size(), 120u);
  EXPECT_NEAR(Ms(Steps(fragment)[59]), 1100, 1e-6);
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("50 steps told before that are left out")));
}

TEST(StepReaderTest, OfSeveralRunsTheLongestIsUsed) {
  std::string log;
  for (int i = 1; i <= 100; ++i) log += MegatronLine(i, 1000);
  for (int i = 1; i <= 30; ++i) log += MegatronLine(i, 500);
  const Fragment fragment = Import({"log", log});
  EXPECT_EQ(Steps(fragment).size(), 100u);
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("as by several runs")));
}

TEST(StepReaderTest, EveryTenthStepIsSaidToStandForTheOthers) {
  std::string log;
  for (int i = 10; i <= 1000; i += 10) log += MegatronLine(i, 1000);
  const Fragment fragment = Import({"log", log});
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("a step is told in 10")));
  const std::deque<RankStep>& steps = Steps(fragment);
  EXPECT_EQ(steps.back().start_unix_ns - steps.front().start_unix_ns, 990'000'000'000u);
}

TEST(StepReaderTest, MillionsOfStepsBecomeMeans) {
  std::string log;
  constexpr int kSteps = 150'000;
  log.reserve(kSteps * 80);
  for (int i = 1; i <= kSteps; ++i) {
    log += Format(" iteration %d/ 9 | elapsed time per iteration (ms): %d.0 |\n", i,
                  i % 2 == 0 ? 1100 : 900);
  }
  const Fragment fragment = Import({"log", log});
  EXPECT_LT(Steps(fragment).size(), 100'000u);
  EXPECT_GT(Steps(fragment).size(), 10'000u);
  EXPECT_NEAR(Ms(Steps(fragment)[10]), 1000, 1e-6);
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("each is the mean of ")));
}

TEST(StepReaderTest, StepsBesideOtherMessagesOfTheJobAreKept) {
  std::string log = "a:1:2 [0] NCCL INFO NCCL version 2.18.5+cuda12.2\n";
  for (int i = 1; i <= 3; ++i) log += MegatronLine(i, 1000) + "a:1:2 [0] NCCL INFO something\n";
  EXPECT_EQ(Import({"log", log}).ranks[0].record.steps.size(), 3u);
}

std::string LogOf(const std::vector<double>& ms, int from = 1) {
  std::string log;
  for (size_t i = 0; i < ms.size(); ++i) log += MegatronLine(from + static_cast<int>(i), ms[i]);
  return log;
}

TEST(StepReaderTest, JobThatBecomesSlowerIsFound) {
  std::vector<double> ms;
  for (int i = 0; i < 300; ++i) ms.push_back((i < 200 ? 2000 : 2150) + (i * 37) % 11);
  const Verdict v = OnlyVerdict(Join({{"log", LogOf(ms)}}));
  EXPECT_EQ(v.finding_class, "fail_slow");
  EXPECT_EQ(v.cause, "cause_not_found");
  EXPECT_THAT(v.ranks, IsEmpty());
  EXPECT_TRUE(v.conclusive);
  EXPECT_THAT(v.summary, HasSubstr("Since step 201 the job takes 7.5 % longer"));
}

TEST(StepReaderTest, LargerBatchIsNoFault) {
  std::string log;
  for (int i = 1; i <= 300; ++i) {
    log += MegatronLine(i, (i < 200 ? 2000 : 3900) + (i * 37) % 11, i < 200 ? 512 : 1024);
  }
  EXPECT_THAT(VerdictsOf(Join({{"log", log}})), IsEmpty());
}

TEST(StepReaderTest, LargerBatchDoesNotHideAFault) {
  std::string log;
  for (int i = 1; i <= 300; ++i) {
    log += MegatronLine(i, (i < 200 ? 2000 : 4800) + (i * 37) % 11, i < 200 ? 512 : 1024);
  }
  const Verdict v = OnlyVerdict(Join({{"log", log}}));
  EXPECT_THAT(v.summary, HasSubstr("20 % longer"));
}

// Truths of the recorded collection.

TEST(StepReaderTest, RecordedLogOfASlowGpuIsReadButTooShortToJudge) {
  FLARE_TRACE_FILES(files, "bigscience-bloom", "2022-04-28-slow-gpu-5pct.log");
  const Fragment fragment = Import(files[0]);
  ASSERT_EQ(Steps(fragment).size(), 5u);
  EXPECT_EQ(Steps(fragment)[0].step.value, 42780u);
  EXPECT_NEAR(Ms(Steps(fragment)[0]), 105'160, 1e-3);
  EXPECT_NEAR(Ms(Steps(fragment)[4]), 111'140, 1e-3);
  EXPECT_EQ(fragment.ranks[0].record.work_unit, "FLOP");
  EXPECT_NEAR(Steps(fragment)[0].work / 105.16 * 1e-12, 149.10, 1e-6);
  // Five steps can be in order by chance once in ten times: no honest detector calls that a change.
  EXPECT_THAT(VerdictsOf(Join({files[0]})), IsEmpty());
  EXPECT_THAT(fragment.notes, Contains(HasSubstr("5 steps told: too few")));
}

// The steps that the excerpt leaves out, at its levels (105.16 s before, 111.14 s after) with the
// noise that was measured in another recorded job of this kind. The change was "lasting".
TEST(StepReaderTest, SlowGpuIsFoundWithTheStepsAroundTheExcerpt) {
  FLARE_TRACE_FILES(noise, "bigscience-bloom/experiments", "meg_ds_3d_gpt2_perf_n16-ds-off");
  std::vector<double> measured = Seconds(Import(noise[0]));
  measured.erase(measured.begin(), measured.begin() + 2);
  const double median = diag::Median(measured);
  std::vector<double> ms;
  for (size_t i = 0; i < 400; ++i) {
    const double level = i < 200 ? 105'160 : 111'140;
    ms.push_back(level * measured[i % measured.size()] / median);
  }
  const Verdict v = OnlyVerdict(Join({{"log", LogOf(ms, 42'583)}}));
  EXPECT_EQ(v.cause, "cause_not_found");
  EXPECT_THAT(v.summary, HasSubstr("Since step 427"));
}

TEST(StepReaderTest, RecordedRunsWithAndWithoutDeepSpeedDifferByEightPercent) {
  FLARE_TRACE_FILES(on, "bigscience-bloom/experiments", "meg_ds_3d_gpt2_perf_n16-ds-on");
  FLARE_TRACE_FILES(off, "bigscience-bloom/experiments", "meg_ds_3d_gpt2_perf_n16-ds-off");
  const std::vector<double> a = Seconds(Import(on[0])), b = Seconds(Import(off[0]));
  ASSERT_EQ(a.size(), 49u);
  ASSERT_EQ(b.size(), 62u);
  EXPECT_NEAR(a[0], 159.8, 0.05);
  EXPECT_NEAR(b[0], 144.9, 0.05);
  EXPECT_NEAR(diag::Median(a), 137.1, 0.05);
  EXPECT_NEAR(diag::Median(b), 126.6, 0.1);
  const diag::RunComparison comparison = diag::CompareRuns(b, a);
  EXPECT_NEAR(comparison.ratio, 1.08, 0.005);
  // The times of one run hang together for so long that few are independent: no certainty.
  EXPECT_EQ(comparison.low, 0);
  EXPECT_THAT(VerdictsOf(Join({on[0]})), IsEmpty());
  EXPECT_THAT(VerdictsOf(Join({off[0]})), IsEmpty());
}

TEST(StepReaderTest, RecordedLogsOfOtherExperimentsHoldTheirIterations) {
  struct Case {
    const char* folder;
    const char* file;
    size_t steps;
    double last_s;
  };
  for (const Case& c :
       {Case{"bigscience-bloom/experiments", "meg_ds_3d_gpt2_perf_n16.out", 2, 145.2},
        Case{"bigscience-bloom/experiments", "meg_ds_zero_gpt2_perf_n16-1999616", 4, 127.766},
        Case{"bigscience-bloom/experiments", "meg_gpt2_base_n4_dp1_tp4_pp4-1809579", 20, 1.3},
        Case{"bigscience-bloom", "2022-04-30-eval-hang-48nodes.log", 1, 111.0},
        Case{"superbench", "megatron_deepspeed.log", 5, 74.4949},
        Case{"dlrover", "training_events-events_0.log", 3, 15.679}}) {
    FLARE_TRACE_FILES(files, c.folder, c.file);
    ASSERT_EQ(files.size(), 1u) << c.file;
    const Fragment fragment = Import(files[0]);
    size_t found = 0;
    for (const RankFragment& rank : fragment.ranks) {
      if (rank.record.steps.empty()) continue;
      ++found;
      EXPECT_EQ(rank.record.steps.size(), c.steps) << c.file;
      EXPECT_NEAR(Ms(rank.record.steps.back()) * 1e-3, c.last_s, 0.1) << c.file;
    }
    EXPECT_EQ(found, 1u) << c.file;
  }
}

TEST(StepReaderTest, RecordedSubmissionsAreReadAndHealthy) {
  struct Case {
    const char* file;
    double median_s;  // of the README; 0 = told as throughput only
    size_t steps;
  };
  for (const Case& c : {Case{"v3.1-nvidia-eos-n64-gpt3-result_0", 11.05, 288},
                        Case{"v3.1-nvidia-eos-dfw-n1344-gpt3-result_0", 0.930, 220},
                        Case{"v4.1-clemson-6x8xH100-bert-result_0", 0, 19},
                        Case{"v3.1-dell-2x4xH100-bert-result_0", 0, 18},
                        Case{"v2.1-azure-4x8xA100-maskrcnn-result_0", 0, 259},
                        Case{"v2.1-azure-16x8xA100-rnnt-result_0", 0, 57}}) {
    FLARE_TRACE_FILES(files, "mlperf", c.file);
    const JoinedJob joined = Join({files[0]});
    const diag::StepSeries series = diag::SeriesOf(joined.job);
    EXPECT_NEAR(static_cast<double>(series.size() + 1), static_cast<double>(c.steps), 2) << c.file;
    if (c.median_s > 0) {
      EXPECT_NEAR(diag::Median(series.duration_ns) * 1e-9, c.median_s, 0.005) << c.file;
    }
    for (const Verdict& verdict : VerdictsOf(joined)) {
      // What NCCL's log tells about GPU-direct is no matter of steps, and only suspected.
      if (verdict.cause == "gpu_direct_off" && !verdict.conclusive) continue;
      EXPECT_NE(verdict.finding_class, "fail_slow") << c.file << ": " << verdict.summary;
    }
  }
}

}  // namespace
}  // namespace flare::import
