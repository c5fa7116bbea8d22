// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "diag/import/kernel_line.h"
#include "tests/diag/import/read_text.h"
#include "tests/diag/import/recorded.h"

namespace flare::import {
namespace {

using diag::HostSignal;
using diag::SignalKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kMidday = 1'731'672'123'000'000'000;  // 2024-11-15T12:02:03Z

TEST(KernelLineTest, EveryFormOfTimeIsTakenOffTheMessage) {
  struct Case {
    const char* line;
    uint64_t at_unix_ns;
    const char* node;
  };
  for (const Case& c : {
           Case{"[131453.740743] NVRM: x", 0, ""},
           Case{"[Fri Nov 15 12:02:03 2024] NVRM: x", kMidday, ""},
           Case{"2024-11-15T12:02:03,000000+00:00 NVRM: x", kMidday, ""},
           Case{"kern  :warn  : 2024-11-15T12:02:03,000000+00:00 NVRM: x", kMidday, ""},
           Case{"2024-11-15T20:02:03+0800 node7 kernel: NVRM: x", kMidday, "node7"},
           Case{"Nov 15 12:02:03 node7 kernel: [  966.502025] NVRM: x", 0, "node7"},
           Case{"6,3964,206764307,-;NVRM: x", 0, ""},
           Case{"<4>[ 3098.275560] NVRM: x", 0, ""},
           Case{"NVRM: x", 0, ""},
       }) {
    const KernelLine line = ParseKernelLine(c.line);
    EXPECT_TRUE(line.recognised) << c.line;
    EXPECT_EQ(line.message, "NVRM: x") << c.line;
    EXPECT_EQ(line.at_unix_ns, c.at_unix_ns) << c.line;
    EXPECT_EQ(line.node, c.node) << c.line;
  }
}

TEST(KernelLineTest, LinesOfOtherLogsAreNotRecognised) {
  for (const char* line :
       {"2022-05-01 03:56:11,379 INFO train: step 3", "[2024-07-03 19:15:16,379] [INFO] [a.py:5]",
        "[default7]: iteration 42780", "node:1:2 [0] NCCL INFO Bootstrap", "",
        "[2025-04-21T23:31:09.074419] [426] [22b7ca89]"}) {
    EXPECT_FALSE(ParseKernelLine(line).recognised) << line;
  }
}

TEST(KernelLineTest, DriverAndItsDeviceAreNoHost) {
  const KernelLine line =
      ParseKernelLine("2024-11-15T12:02:03,000000+00:00 mlx5_core 0000:9d:00.0: enabled");
  EXPECT_EQ(line.node, "");
  EXPECT_EQ(line.message, "mlx5_core 0000:9d:00.0: enabled");
}

TEST(KernelLogTest, XidNamesNumberDeviceAndHost) {
  const Fragment fragment = MustRead(
      "Nov 15 12:02:03 node7 kernel: [9.5] NVRM: Xid (PCI:0000:19:00): 79, pid=1, GPU has fallen\n"
      "Nov 15 12:02:03 node7 kernel: [9.6] NVRM: Xid (PCI:0000:19:00): 79, pid=1, GPU has fallen\n",
      "kernel-log");
  ASSERT_EQ(fragment.signals.size(), 1u);
  const HostSignal& signal = fragment.signals[0];
  EXPECT_EQ(signal.kind, SignalKind::kXid);
  EXPECT_EQ(signal.code, 79);
  EXPECT_EQ(signal.device, "0000:19:00");
  EXPECT_EQ(signal.node, "node7");
  EXPECT_EQ(signal.count, 2u);
  EXPECT_EQ(signal.source, "kernel log, line 1");
  EXPECT_THAT(fragment.notes, ElementsAre(HasSubstr("without a date")));
}

TEST(KernelLogTest, SwitchErrorsSayWhetherTheyAreFatal) {
  const Fragment fragment = MustRead(
      "[1.0] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress\n"
      "[1.1] nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
      "[1.1] nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Data {0x50610002, 0x10100030}\n",
      "kernel-log");
  ASSERT_EQ(fragment.signals.size(), 2u);
  EXPECT_EQ(fragment.signals[0].value, 0.0);
  EXPECT_EQ(fragment.signals[1].value, 1.0);
  EXPECT_EQ(fragment.signals[1].count, 1u);
}

TEST(KernelLogTest, LinkCountsOnlyWhenItWasUpBefore) {
  const Fragment fragment = MustRead(
      "[1.0] mlx5_core 0000:1b:00.1 eth1: Link down\n"
      "[2.0] mlx5_core 0000:1b:00.0 eth0: Link up\n"
      "[3.0] mlx5_core 0000:1b:00.0 eth0: Link down\n"
      "[4.0] ata5: SATA link down (SStatus 0 SControl 300)\n"
      "[5.0] veth12: Lost carrier\n",
      "kernel-log");
  ASSERT_EQ(fragment.signals.size(), 2u);
  EXPECT_EQ(fragment.signals[0].kind, SignalKind::kLinkFlap);
  EXPECT_EQ(fragment.signals[1].kind, SignalKind::kLinkDown);
  EXPECT_EQ(fragment.signals[1].device, "mlx5_core 0000:1b:00.0 eth0");
  EXPECT_FALSE(fragment.signals[1].value.has_value());
}

TEST(KernelLogTest, CarrierThatComesBackIsAFlap) {
  const Fragment fragment = MustRead(
      "Aug 17 06:18:01 n systemd-networkd[5]: ib6: lost carrier\n"
      "Aug 17 06:18:06 n systemd-networkd[5]: ib6: Gained carrier\n",
      "kernel-log");
  ASSERT_EQ(fragment.signals.size(), 1u);
  EXPECT_EQ(fragment.signals[0].kind, SignalKind::kLinkFlap);
  EXPECT_EQ(fragment.signals[0].value, 1.0);
}

TEST(KernelLogTest, KilledAndCrashedProcessesAreNamed) {
  const Fragment fragment = MustRead(
      "[1.0] Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1kB\n"
      "[1.1] oom_reaper: reaped process 4242 (python3), now anon-rss:0kB\n"
      "[2.0] pt_main_thread[77]: segfault at 7f ip 00 sp 00 error 4 in libnccl.so.2[7f+d]\n"
      "[3.0] traps: python[78] general protection fault ip:7f sp:7f error:0\n",
      "kernel-log");
  ASSERT_EQ(fragment.signals.size(), 3u);
  EXPECT_EQ(fragment.signals[0].kind, SignalKind::kOutOfMemory);
  EXPECT_EQ(fragment.signals[0].device, "python3[4242]");
  EXPECT_EQ(fragment.signals[0].count, 2u);
  EXPECT_EQ(fragment.signals[1].kind, SignalKind::kCrash);
  EXPECT_EQ(fragment.signals[1].device, "pt_main_thread[77]");
  EXPECT_EQ(fragment.signals[2].device, "python[78]");
}

TEST(KernelLogTest, PcieErrorsNameTheDeviceAndTheirSeverity) {
  const Fragment fragment = MustRead(
      "[1.0] pcieport 0000:00:01.0: AER: enabled with IRQ 27\n"
      "[2.0] pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0\n"
      "[3.0] pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:01:00.0\n",
      "kernel-log");
  ASSERT_EQ(fragment.signals.size(), 2u);
  EXPECT_EQ(fragment.signals[0].code, 0);
  EXPECT_EQ(fragment.signals[0].device, "0000:01:00.0");
  EXPECT_EQ(fragment.signals[1].code, 2);
}

TEST(KernelLogTest, BlockedTasksAndSilentServersAreStalls) {
  const Fragment fragment = MustRead(
      "[1.0] INFO: task python:4242 blocked for more than 122 seconds.\n"
      "[2.0] nfs: server fs01 not responding, still trying\n",
      "kernel-log");
  ASSERT_EQ(fragment.signals.size(), 2u);
  EXPECT_EQ(fragment.signals[0].kind, SignalKind::kFileSystemStall);
  EXPECT_EQ(fragment.signals[0].device, "python[4242]");
  EXPECT_EQ(fragment.signals[0].value, 122.0);
  EXPECT_EQ(fragment.signals[1].device, "fs01");
}

// The truths that the names and origins of the recorded logs state.

uint64_t CountOf(const Fragment& fragment, SignalKind kind, std::optional<int64_t> code = {}) {
  uint64_t count = 0;
  for (const HostSignal& signal : fragment.signals) {
    if (signal.kind == kind && (!code || signal.code == code)) count += signal.count;
  }
  return count;
}

TEST(KernelLogTest, RecordedXidsAreCountedAsTheirOriginSays) {
  SKIP_WITHOUT_RECORDED_FILES();
  const auto read = [](const char* name) {
    return MustReadFile(Recorded(std::string("gpud/") + name), "kernel-log");
  };
  EXPECT_EQ(CountOf(read("dmesg-with-xid-119.log.gz"), SignalKind::kXid, 119), 5u);
  const Fragment faults = read("dmesg.decode.iso.log.0.gz");
  EXPECT_EQ(CountOf(faults, SignalKind::kXid), 636u);
  EXPECT_EQ(CountOf(faults, SignalKind::kXid, 13), 629u);
  EXPECT_EQ(CountOf(faults, SignalKind::kXid, 43), 7u);
  const Fragment memory = read("memory-dmesg.decode.iso.log.gz");
  EXPECT_EQ(CountOf(memory, SignalKind::kXid, 13), 16u);
  EXPECT_EQ(CountOf(memory, SignalKind::kXid, 43), 1u);
  const Fragment ecc = read("dmesg-time-format-iso.log.gz");
  EXPECT_EQ(CountOf(ecc, SignalKind::kXid, 48), 1u);
  EXPECT_EQ(CountOf(ecc, SignalKind::kXid, 63), 1u);
  EXPECT_EQ(CountOf(ecc, SignalKind::kXid, 94), 9u);
}

TEST(KernelLogTest, RecordedListOfXidLinesIsReadButForBrokenOnes) {
  SKIP_WITHOUT_RECORDED_FILES();
  const Fragment fragment = MustReadFile(Recorded("gpud/xid-sxid-lines.txt"), "kernel-log");
  // Of 104 and 16: three Xid and two SXid lines without a number; two SXid lines are registers that
  // belong to the line before.
  EXPECT_EQ(CountOf(fragment, SignalKind::kXid), 101u);
  EXPECT_EQ(CountOf(fragment, SignalKind::kSxid), 12u);
  EXPECT_THAT(fragment.notes,
              testing::Contains(HasSubstr("5 Xid lines without a readable number")));
}

TEST(KernelLogTest, RecordedFaultsOfTheHostAreRead) {
  SKIP_WITHOUT_RECORDED_FILES();
  const auto first = [](const std::string& name) {
    const Fragment fragment = MustReadFile(Recorded(name), "kernel-log");
    return fragment.signals.empty() ? HostSignal() : fragment.signals.front();
  };
  EXPECT_EQ(first("gpud/nccl-dmesg.decode.iso.log").kind, SignalKind::kCrash);
  EXPECT_THAT(first("gpud/nccl-dmesg.decode.iso.log").text, HasSubstr("in libnccl.so.2"));
  EXPECT_EQ(first("gpud/fd-dmesg.decode.iso.log").device, "file handles");
  for (const char* name : {"gpud/dmesg.peermem.log.0", "gpud/kmsg.2.peermem.log"}) {
    EXPECT_EQ(first(name).device, "nvidia-peermem");
    EXPECT_EQ(first(name).count, 7u);
  }
  const HostSignal flap = first("azurehpc-health-checks/1dev_6flap_syslog");
  EXPECT_EQ(flap.kind, SignalKind::kLinkFlap);
  EXPECT_EQ(flap.device, "ib6");
  EXPECT_EQ(flap.value, 6.0);
  EXPECT_EQ(first("azurehpc-health-checks/0flap_syslog").kind, SignalKind::kUnknown);
}

}  // namespace
}  // namespace flare::import
