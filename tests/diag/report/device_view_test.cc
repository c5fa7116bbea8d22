// SPDX-License-Identifier: Apache-2.0
#include "diag/report/device_view.h"

#include <gtest/gtest.h>

#include "libflare/core/quantile_sketch.h"

namespace flare::diag {
namespace {

TEST(DeviceViewTest, SharesAreOfTheTimeFromFirstToLastActivity) {
  v1::DeviceStep device;
  device.set_span_ns(80);
  device.set_inter_step_ns(20);
  device.set_busy_ns(60);
  device.set_compute_ns(50);
  device.set_communication_ns(20);
  device.set_overlap_ns(15);
  device.set_memory_ns(5);
  const auto shares = SharesOf(device);
  ASSERT_TRUE(shares);
  EXPECT_EQ(shares->observed_ns, 100u);
  EXPECT_DOUBLE_EQ(shares->busy, 0.6);
  EXPECT_DOUBLE_EQ(shares->idle, 0.4);
  EXPECT_DOUBLE_EQ(shares->compute, 0.5);
  EXPECT_DOUBLE_EQ(shares->communication, 0.2);
  EXPECT_DOUBLE_EQ(shares->memory, 0.05);
  EXPECT_DOUBLE_EQ(shares->exposed, 0.05);
  EXPECT_DOUBLE_EQ(shares->between_steps, 0.2);
  EXPECT_DOUBLE_EQ(*shares->overlap, 0.75);
}

TEST(DeviceViewTest, NothingObservedHasNoSharesAndNoCommunicationNoOverlap) {
  v1::DeviceStep device;
  EXPECT_FALSE(SharesOf(device));
  device.set_span_ns(10);
  EXPECT_FALSE(SharesOf(device)->overlap);
}

TEST(DeviceViewTest, ImpossibleSumsStayShares) {
  v1::DeviceStep device;
  device.set_span_ns(UINT64_MAX);
  device.set_inter_step_ns(UINT64_MAX);
  device.set_busy_ns(UINT64_MAX);
  EXPECT_DOUBLE_EQ(SharesOf(device)->idle, 0);
  device.set_span_ns(10);
  device.set_inter_step_ns(0);
  device.set_communication_ns(5);
  device.set_overlap_ns(500);
  EXPECT_DOUBLE_EQ(*SharesOf(device)->overlap, 1);
  EXPECT_DOUBLE_EQ(SharesOf(device)->exposed, 0);
}

TEST(DeviceViewTest, QuantilesComeFromTheMessage) {
  QuantileSketch sketch;
  for (uint64_t us = 1; us <= 100; ++us) sketch.Add(us * 1000);
  v1::QuantileSketch message;
  int32_t before = 0;
  for (const auto& bucket : sketch.buckets()) {
    message.add_index_delta(bucket.index - before);
    message.add_count(bucket.count);
    before = bucket.index;
  }
  EXPECT_NEAR(*QuantileSeconds(message, 0.5), 50e-6, 1e-6);
  EXPECT_FALSE(QuantileSeconds({}, 0.5));
  message.set_index_delta(0, INT32_MAX);
  message.set_index_delta(1, INT32_MAX);  // beyond every bucket
  EXPECT_FALSE(QuantileSeconds(message, 0.5));
}

}  // namespace
}  // namespace flare::diag
