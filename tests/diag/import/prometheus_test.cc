// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/diag/import/read_text.h"
#include "tests/diag/import/recorded.h"

namespace flare::import {
namespace {

using diag::ClockLimit;
using diag::HostSignal;
using diag::SignalKind;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(PrometheusTest, MetricsOfDcgmBecomeStatements) {
  const Fragment fragment = MustRead(
      "# TYPE DCGM_FI_DEV_XID_ERRORS gauge\n"
      "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",pci_bus_id=\"00000000:07:00.0\",Hostname=\"n1\"} 79 "
      "1731672123000\n"
      "DCGM_FI_DEV_XID_ERRORS{gpu=\"1\",Hostname=\"n1\"} 0\n"
      "DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu=\"1\",Hostname=\"n1\"} 1\n",
      "prometheus");
  ASSERT_EQ(fragment.signals.size(), 2u);
  EXPECT_EQ(fragment.signals[0].kind, SignalKind::kXid);
  EXPECT_EQ(fragment.signals[0].code, 79);
  EXPECT_EQ(fragment.signals[0].node, "n1");
  EXPECT_EQ(fragment.signals[0].device, "00000000:07:00.0");
  EXPECT_EQ(fragment.signals[0].at_unix_ns, 1'731'672'123'000'000'000u);
  EXPECT_EQ(fragment.signals[1].device, "GPU 1");
}

TEST(PrometheusTest, BitsOfThrottlingSayTheReason) {
  const auto limits = [](int bits) {
    std::vector<int64_t> codes;
    const Fragment fragment =
        MustRead("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu=\"0\"} " + std::to_string(bits) + "\n",
                 "prometheus");
    for (const HostSignal& signal : fragment.signals) codes.push_back(*signal.code);
    return codes;
  };
  EXPECT_THAT(limits(0x1), IsEmpty());  // idle
  EXPECT_THAT(limits(0x8 | 0x40), ElementsAre(static_cast<int64_t>(ClockLimit::kThermal)));
  EXPECT_THAT(limits(0x8), ElementsAre(static_cast<int64_t>(ClockLimit::kOther)));
  EXPECT_THAT(limits(0x80), ElementsAre(static_cast<int64_t>(ClockLimit::kPowerBrake)));
}

TEST(PrometheusTest, LabelsMayHoldEscapesAndBraces) {
  const Fragment fragment =
      MustRead("XPU_TIMER_COMMON_HANG{job_name=\"a}\\\"b\",rank=\"4\"} 1\n", "prometheus");
  EXPECT_EQ(fragment.identity, "a}\"b");
  ASSERT_EQ(fragment.signals.size(), 1u);
  EXPECT_EQ(fragment.signals[0].rank, Rank(4));
}

std::vector<uint32_t> HangingRanks(const char* name) {
  const Fragment fragment = MustReadFile(Recorded(name), "prometheus");
  EXPECT_EQ(fragment.ranks.size(), 8u);
  EXPECT_EQ(fragment.identity, "aistudio-155220033");
  std::vector<uint32_t> ranks;
  for (const HostSignal& signal : fragment.signals) {
    EXPECT_EQ(signal.kind, SignalKind::kDeviceHang);
    ranks.push_back(signal.rank->value);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

TEST(PrometheusTest, RecordedHangsAreThoseOfTheEditedFiles) {
  SKIP_WITHOUT_RECORDED_FILES();
  EXPECT_THAT(HangingRanks("dlrover/hang-xpu_timer_metric_all.gz"),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(HangingRanks("dlrover/hang-xpu_timer_metric_some.gz"), ElementsAre(0, 2, 5));
  EXPECT_THAT(HangingRanks("dlrover/normal-xpu_timer_metric_0.gz"), IsEmpty());
}

}  // namespace
}  // namespace flare::import
