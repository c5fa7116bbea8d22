// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/diag/import/read_text.h"
#include "tests/diag/import/recorded.h"

namespace flare::import {
namespace {

using diag::HostSignal;
using diag::SignalKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Port(const char* device, const char* model, const char* state, const char* physical) {
  return std::string("CA '") + device + "'\n\tCA type: " + model +
         "\n\tPort 1:\n\t\tState: " + state + "\n\t\tPhysical state: " + physical +
         "\n\t\tLink layer: InfiniBand\n";
}

TEST(InfinibandTest, PortThatIsDownIsComparedWithThoseOfItsModel) {
  const Fragment fragment = MustRead(Port("mlx5_0", "MT4129", "Active", "LinkUp") +
                                         Port("mlx5_1", "MT4129", "Active", "LinkUp") +
                                         Port("mlx5_2", "MT4129", "Down", "Polling") +
                                         Port("mlx5_3", "MT4125", "Down", "Disabled"),
                                     "ibstat");
  ASSERT_EQ(fragment.signals.size(), 2u);
  EXPECT_EQ(fragment.signals[0].device, "mlx5_2 port 1");
  EXPECT_NEAR(*fragment.signals[0].value, 2.0 / 3, 1e-9);
  EXPECT_THAT(fragment.signals[0].text, HasSubstr("Down, Polling; 2 of 3 ports of MT4129"));
  EXPECT_EQ(fragment.signals[1].value, 0.0);
}

TEST(InfinibandTest, IbstatusTellsTheSame) {
  const Fragment fragment = MustRead(R"(Infiniband device 'mlx5_0' port 1 status:
        state:           4: ACTIVE
        phys state:      5: LinkUp
        link_layer:      InfiniBand

Infiniband device 'mlx5_1' port 1 status:
        state:           1: DOWN
        phys state:      2: Polling
        link_layer:      InfiniBand
)",
                                     "ibstat");
  ASSERT_EQ(fragment.signals.size(), 1u);
  EXPECT_EQ(fragment.signals[0].device, "mlx5_1 port 1");
  EXPECT_EQ(fragment.signals[0].value, 0.5);
}

std::vector<std::string> Down(const char* name) {
  std::vector<std::string> devices;
  for (const HostSignal& signal : MustReadFile(Recorded(name), "ibstat").signals) {
    EXPECT_EQ(signal.kind, SignalKind::kLinkDown);
    devices.push_back(signal.device);
  }
  return devices;
}

TEST(InfinibandTest, RecordedPortsAreDownAsTheFilesAreNamed) {
  SKIP_WITHOUT_RECORDED_FILES();
  for (const char* name :
       {"gpud/ibstat.47.0.a100.all.active.0", "gpud/ibstat.47.0.h100.all.active.1.gz",
        "gpud/ibstat.47.0.h100.all.active.2.gz", "gpud/ibstatus.39.0.a100.all.active.0",
        "azhpc-diagnostics/ibstatus.out"}) {
    EXPECT_THAT(Down(name), IsEmpty()) << name;
  }
  EXPECT_THAT(Down("gpud/ibstat.47.0.h100.some.down.0.gz"),
              ElementsAre("mlx5_2 port 1", "mlx5_7 port 1", "mlx5_8 port 1"));
  EXPECT_THAT(Down("gpud/ibstat.47.0.h100.some.down.1.gz"),
              ElementsAre("mlx5_11 port 1", "mlx5_5 port 1"));
  EXPECT_THAT(Down("gpud/ibstat.47.0.h100.some.down.with.polling.1.gz"),
              ElementsAre("mlx5_11 port 1", "mlx5_5 port 1"));
}

TEST(InfinibandTest, RecordedFailureOfTheToolIsANote) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Fragment fragment =
      MustReadFile(Recorded("gpud/ibstat.39.0.a100.failed.ibpanic.exit-255.0.gz"), "ibstat");
  EXPECT_THAT(fragment.signals, IsEmpty());
  EXPECT_THAT(fragment.notes, ElementsAre(HasSubstr("stat of IB device 'mlx5_8' failed")));
}

TEST(InfinibandTest, RecordedSysfsHasCountersOfNineAdapters) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Fragment fragment =
      MustReadFile(Recorded("gpud/sys-class-infiniband-h100.0.tar.gz"), "ib-sysfs");
  ASSERT_EQ(fragment.signals.size(), 9u);
  for (const HostSignal& signal : fragment.signals) {
    EXPECT_EQ(signal.kind, SignalKind::kLinkErrors);
  }
  EXPECT_EQ(fragment.signals[1].device, "mlx5_1 port 1");
  EXPECT_THAT(fragment.signals[1].text, HasSubstr("link_downed 255"));
}

}  // namespace
}  // namespace flare::import
