// SPDX-License-Identifier: Apache-2.0
#include "diag/metrics/cpu_wait.h"

#include <gtest/gtest.h>

namespace flare::diag {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

RankRecord Looked(uint64_t from_s, uint64_t delay_before_ms, uint64_t to_s,
                  uint64_t delay_after_ms) {
  RankRecord record;
  record.previous_at_unix_ns = from_s * kSecond;
  record.previous_run_delay_ns = delay_before_ms * 1'000'000;
  record.state.at_unix_ns = to_s * kSecond;
  record.state.process.run_delay_ns = delay_after_ms * 1'000'000;
  return record;
}

TEST(CpuWaitTest, ShareIsTheGrowthBetweenTwoLooks) {
  const auto wait = CpuWaitOf(Looked(100, 500, 105, 1500));
  ASSERT_TRUE(wait.has_value());
  EXPECT_DOUBLE_EQ(wait->share, 0.2);
  EXPECT_EQ(wait->from_unix_ns, 100 * kSecond);
  EXPECT_EQ(wait->to_unix_ns, 105 * kSecond);
}

TEST(CpuWaitTest, NobodyWaitsLongerThanTheTimeBetween) {
  EXPECT_DOUBLE_EQ(CpuWaitOf(Looked(100, 500, 102, 9000))->share, 1);
}

TEST(CpuWaitTest, NothingIsKnownWithoutTwoCountsAndTimeBetween) {
  EXPECT_FALSE(CpuWaitOf(Looked(100, 0, 105, 1500)));    // the first look did not tell
  EXPECT_FALSE(CpuWaitOf(Looked(100, 500, 105, 0)));     // the last did not
  EXPECT_FALSE(CpuWaitOf(Looked(100, 500, 105, 400)));   // another thread, counted anew
  EXPECT_FALSE(CpuWaitOf(Looked(0, 500, 105, 1500)));    // there was no first look
  EXPECT_FALSE(CpuWaitOf(Looked(100, 500, 100, 1500)));  // no time between
  EXPECT_FALSE(CpuWaitOf(RankRecord{}));
}

}  // namespace
}  // namespace flare::diag
