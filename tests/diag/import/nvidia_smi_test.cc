// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/diag/import/read_text.h"
#include "tests/diag/import/recorded.h"

namespace flare::import {
namespace {

using diag::ClockLimit;
using diag::EccFact;
using diag::HostSignal;
using diag::SignalKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Query(const std::string& gpus, int announced) {
  return "==============NVSMI LOG==============\n\nTimestamp   : Thu Mar 14 20:46:07 2024\n"
         "Attached GPUs                             : " +
         std::to_string(announced) + "\n" + gpus;
}

int64_t Code(EccFact fact) { return static_cast<int64_t>(fact); }

TEST(NvidiaSmiTest, UncorrectableErrorsAreSummedUnderTheirHeading) {
  const Fragment fragment = MustRead(Query(R"(GPU 00000000:53:00.0
    Product Name                          : NVIDIA H100
    ECC Errors
        Volatile
            SRAM Correctable              : 7
            SRAM Uncorrectable Parity     : 1
            DRAM Uncorrectable            : 2
        Aggregate
            DRAM Uncorrectable            : 5
)",
                                           1),
                                     "nvidia-smi");
  ASSERT_EQ(fragment.signals.size(), 2u);
  EXPECT_EQ(fragment.signals[0].code, Code(EccFact::kVolatileUncorrectable));
  EXPECT_EQ(fragment.signals[0].value, 3.0);
  EXPECT_EQ(fragment.signals[0].device, "00000000:53:00.0");
  EXPECT_EQ(fragment.signals[1].code, Code(EccFact::kAggregateUncorrectable));
}

TEST(NvidiaSmiTest, DoubleBitTotalOfOlderDriversCounts) {
  const Fragment fragment = MustRead(Query(R"(GPU 00000000:53:00.0
    Ecc Mode
        Current                           : Enabled
    ECC Errors
        Volatile
            Single Bit
                Total                     : 9
            Double Bit
                Device Memory             : 1
                Total                     : 1
)",
                                           1),
                                     "nvidia-smi");
  ASSERT_EQ(fragment.signals.size(), 1u);
  EXPECT_EQ(fragment.signals[0].value, 1.0);
}

TEST(NvidiaSmiTest, SlowdownsSayTheirReasonAndTheClock) {
  const Fragment fragment = MustRead(Query(R"(GPU 00000000:53:00.0
    Clocks Throttle Reasons
        Idle                              : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
            HW Power Brake Slowdown       : Not Active
    Clocks
        SM                                : 345 MHz
    Max Clocks
        SM                                : 1980 MHz
)",
                                           1),
                                     "nvidia-smi");
  ASSERT_EQ(fragment.signals.size(), 2u);
  EXPECT_EQ(fragment.signals[0].code, static_cast<int64_t>(ClockLimit::kThermal));
  EXPECT_EQ(fragment.signals[0].value, 345.0);
  EXPECT_EQ(fragment.signals[1].code, static_cast<int64_t>(ClockLimit::kPowerCap));
}

TEST(NvidiaSmiTest, NarrowLinkIsComparedWithThoseOfItsModel) {
  const auto gpu = [](const char* address, int width) {
    return std::string("GPU ") + address +
           "\n    Product Name : NVIDIA H100\n    PCI\n        GPU Link Info\n"
           "            Link Width\n                Max : 16x\n                Current : " +
           std::to_string(width) + "x\n";
  };
  const Fragment alone = MustRead(Query(gpu("00000000:01:00.0", 8), 1), "nvidia-smi");
  ASSERT_EQ(alone.signals.size(), 1u);
  EXPECT_EQ(alone.signals[0].kind, SignalKind::kPcieDegraded);
  EXPECT_EQ(alone.signals[0].code, 0);
  const Fragment pair =
      MustRead(Query(gpu("00000000:01:00.0", 8) + gpu("00000000:02:00.0", 16), 2), "nvidia-smi");
  ASSERT_EQ(pair.signals.size(), 1u);
  EXPECT_EQ(pair.signals[0].code, 1);
  EXPECT_EQ(pair.signals[0].value, 0.5);
}

TEST(NvidiaSmiTest, CutOffQuerySaysSo) {
  const Fragment fragment = MustRead(Query("GPU 00000000:53:00.0\n", 8), "nvidia-smi");
  EXPECT_THAT(fragment.notes, ElementsAre(HasSubstr("announces 8 GPUs and tells of 1")));
}

TEST(NvidiaSmiTest, TableShowsErrorsOfMemoryAndReachedDevices) {
  const Fragment fragment = MustRead(R"(+----------------------------+
| NVIDIA-SMI 525.125.06   Driver Version: 525.125.06   CUDA Version: 12.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
|   0  Tesla V100-SXM2...  Off  | 00000001:00:00.0 Off |                    0 |
| N/A   40C    P0    43W / 300W |      0MiB / 32510MiB |      0%      Default |
|   1  Tesla V100-SXM2...  Off  | 00000002:00:00.0 Off |                    3 |
|   2  GeForce ...         Off  | 00000003:00:00.0 Off |                  N/A |
Unable to determine the device handle for GPU0000:9B:00.0: Unknown Error
)",
                                     "nvidia-smi");
  ASSERT_EQ(fragment.signals.size(), 2u);
  EXPECT_EQ(fragment.signals[0].kind, SignalKind::kEcc);
  EXPECT_EQ(fragment.signals[0].device, "00000002:00:00.0");
  EXPECT_EQ(fragment.signals[1].kind, SignalKind::kGpuLost);
  EXPECT_EQ(fragment.signals[1].device, "0000:9B:00.0");
}

TEST(NvidiaSmiTest, RecordedLinksThatAreDownAreCounted) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Fragment bad = MustReadFile(Recorded("azhpc-diagnostics/nvlink.bad.out"), "nvidia-smi");
  ASSERT_EQ(bad.signals.size(), 4u);
  double down = 0;
  for (const HostSignal& signal : bad.signals) {
    EXPECT_EQ(signal.kind, SignalKind::kNvlinkDown);
    EXPECT_EQ(signal.code, 6);  // other GPUs have all six up
    down += *signal.value;
  }
  EXPECT_EQ(down, 6);
  EXPECT_EQ(bad.signals[0].device, "GPU 3");
  const Fragment all =
      MustReadFile(Recorded("azurehpc-health-checks/bad_nvlink_status.txt"), "nvidia-smi");
  ASSERT_EQ(all.signals.size(), 1u);
  EXPECT_FALSE(all.signals[0].code.has_value());
  for (const char* name :
       {"azurehpc-health-checks/good_nvlink_status.txt", "gpud/nvidia-smi.nvlink.status.a100"}) {
    EXPECT_THAT(MustReadFile(Recorded(name), "nvidia-smi").signals, IsEmpty()) << name;
  }
}

TEST(NvidiaSmiTest, RecordedRetiredPagesAreThoseOfTheEditedFile) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Fragment fragment =
      MustReadFile(Recorded("azurehpc-health-checks/bad_nvsmi8_output.txt"), "nvidia-smi");
  ASSERT_FALSE(fragment.signals.empty());
  EXPECT_EQ(fragment.signals[0].code, Code(EccFact::kRetiredPages));
  EXPECT_THAT(fragment.signals[0].text,
              HasSubstr("60 for single bit errors, 5 for double bit errors"));
  EXPECT_THAT(
      MustReadFile(Recorded("azurehpc-health-checks/orig_nvsmi8_output.txt"), "nvidia-smi").signals,
      IsEmpty());
}

TEST(NvidiaSmiTest, RecordedTruncatedQueryIsUsedAndSaid) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Fragment fragment =
      MustReadFile(Recorded("gpud/nvidia-smi-query.535.183.01.out.0.invalid.gz"), "nvidia-smi");
  EXPECT_THAT(fragment.signals, IsEmpty());
  EXPECT_THAT(fragment.notes, ElementsAre(HasSubstr("it is cut off")));
}

}  // namespace
}  // namespace flare::import
