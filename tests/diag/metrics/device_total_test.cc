// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/device_total.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flare::diag {
namespace {

using testing::ElementsAre;

DeviceStep Step(uint64_t busy_ns) {
  DeviceStep step;
  step.kernels = 10;
  step.streams = 2;
  step.span_ns = 100;
  step.busy_ns = busy_ns;
  step.compute_issue_latency.Add(1000);
  KernelTotals gemm;
  gemm.kernel_class = KernelClass::kGemm;
  gemm.count = 4;
  gemm.total_ns = busy_ns;
  gemm.duration.Add(busy_ns);
  step.classes = {gemm};
  step.gemms = {{1, 64, 64, 64, DataType::kFloat16, 4, busy_ns, 0}};
  step.devices = {"A100"};
  return step;
}

TEST(DeviceTotalTest, TimesAddUpAndDistributionsMerge) {
  DeviceTotal total;
  total.Add(Step(40));
  total.Add(Step(60));
  const DeviceStep sum = total.Sum();
  EXPECT_EQ(sum.kernels, 20u);
  EXPECT_EQ(sum.streams, 2u);
  EXPECT_EQ(sum.span_ns, 200u);
  EXPECT_EQ(sum.busy_ns, 100u);
  EXPECT_EQ(sum.compute_issue_latency.count(), 2u);
  ASSERT_EQ(sum.classes.size(), 1u);
  EXPECT_EQ(sum.classes[0].kernel_class, KernelClass::kGemm);
  EXPECT_EQ(sum.classes[0].count, 8u);
  EXPECT_EQ(sum.classes[0].duration.count(), 2u);
  ASSERT_EQ(sum.gemms.size(), 1u);
  EXPECT_EQ(sum.gemms[0].total_ns, 100u);
  EXPECT_THAT(sum.devices, ElementsAre("A100"));
}

TEST(DeviceTotalTest, SumsSaturate) {
  DeviceTotal total;
  DeviceStep step = Step(UINT64_MAX - 5);
  step.kernels = UINT32_MAX - 5;
  total.Add(step);
  total.Add(step);
  EXPECT_EQ(total.Sum().busy_ns, UINT64_MAX);
  EXPECT_EQ(total.Sum().kernels, UINT32_MAX);
}

TEST(DeviceTotalTest, ShapesThatTakeLongestAreKept) {
  DeviceTotal total;
  DeviceStep step;
  for (uint32_t i = 0; i < 200; ++i) {
    step.gemms.push_back({1, i, 1, 1, DataType::kFloat32, 1, i, 0});
  }
  total.Add(step);
  const DeviceStep sum = total.Sum();
  ASSERT_EQ(sum.gemms.size(), DeviceTotal::kMostGemms);
  EXPECT_EQ(sum.gemms.front().total_ns, 199u);
  EXPECT_EQ(sum.gemms.back().total_ns, 200u - DeviceTotal::kMostGemms);
}

TEST(DeviceTotalTest, NewestStepsWithADeviceCount) {
  RankRecord rank;
  for (uint64_t i = 0; i < 10; ++i) {
    RankStep step;
    step.step = StepId(i);
    step.duration_ns = 1000;
    if (i != 8) step.device = Step(i);
    rank.steps.push_back(step);
  }
  const RankDevice over = DeviceOver(rank, 3);
  EXPECT_EQ(over.steps, 3u);
  EXPECT_EQ(over.steps_ns, 3000u);
  EXPECT_EQ(over.device.busy_ns, 9u + 7u + 6u);
  EXPECT_EQ(DeviceOver(rank, 100).steps, 9u);
  EXPECT_EQ(DeviceOver(RankRecord(), 100).steps, 0u);
}

}  // namespace
}  // namespace flare::diag
