// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <filesystem>
#include <map>

#include "tests/diag/import/read_text.h"
#include "tests/diag/import/recorded.h"

// Every recorded file of stacks, logs and metrics is read as what it is, or refused with a reason.
namespace flare::import {
namespace {

namespace fs = std::filesystem;

// By the beginning of the name; the longest fits best. "" is no kind that we read: lists of modules
// and PCI devices say nothing about health, the other logs belong to other importers.
const std::map<std::string, std::string> kKinds = {
    {"azhpc-diagnostics/ibstatus", "ibstat"},
    {"azhpc-diagnostics/journald", "kernel-log"},
    {"azhpc-diagnostics/lsmod", ""},
    {"azhpc-diagnostics/nv", "nvidia-smi"},
    {"azurehpc-health-checks/", "nvidia-smi"},
    {"azurehpc-health-checks/0flap", "kernel-log"},
    {"azurehpc-health-checks/1dev", "kernel-log"},
    {"dlrover/hang-", "prometheus"},
    {"dlrover/normal-", "prometheus"},
    {"dlrover/rank6", "stack-svg"},
    {"dlrover/xpu_timer", "prometheus"},
    {"gpud/dmesg", "kernel-log"},
    {"gpud/fabric", "fabric-manager"},
    {"gpud/fd-dmesg", "kernel-log"},
    {"gpud/ibstat", "ibstat"},
    {"gpud/journalctl", "kernel-log"},
    {"gpud/kmsg", "kernel-log"},
    {"gpud/lspci", ""},
    {"gpud/memory-dmesg", "kernel-log"},
    {"gpud/nccl-dmesg", "kernel-log"},
    {"gpud/nvidia-smi", "nvidia-smi"},
    {"gpud/sys-class-infiniband", "ib-sysfs"},
    {"gpud/xid-sxid-lines", "kernel-log"},
    {"nvidia_gpu_exporter/", "nvidia-smi"},
};

std::string KindOf(const std::string& name) {
  if (name.find("metrics.gz") != std::string::npos) return "prometheus";
  std::string kind;
  size_t longest = 0;
  for (const auto& [prefix, known] : kKinds) {
    if (!name.starts_with(prefix) || prefix.size() < longest) continue;
    longest = prefix.size();
    kind = known;
  }
  return kind;
}

TEST(HardwareFilesTest, EachRecordedFileIsReadAsWhatItIs) {
  SKIP_WITHOUT_RECORDED_FILES();
  size_t read = 0;
  for (const char* folder :
       {"gpud", "azhpc-diagnostics", "azurehpc-health-checks", "nvidia_gpu_exporter"}) {
    for (const auto& file : fs::directory_iterator(Recorded(folder))) {
      const std::string name = std::string(folder) + "/" + file.path().filename().string();
      const std::string kind = KindOf(name);
      const Result<Fragment> fragment = ImportFile(file.path().string(), "");
      if (kind.empty()) {
        EXPECT_FALSE(fragment.ok()) << name;
        EXPECT_THAT(fragment.status().message(),
                    testing::AnyOf(testing::HasSubstr("not a kind of file"),
                                   testing::HasSubstr("text in which no training step")))
            << name;
        continue;
      }
      ASSERT_TRUE(fragment.ok()) << name << ": " << fragment.status().message();
      EXPECT_EQ(fragment->kind, kind) << name;
      ++read;
    }
  }
  EXPECT_EQ(read, 42u + 5u + 6u + 15u);
}

TEST(HardwareFilesTest, NoOtherRecordedFileIsTakenForOneOfThese) {
  SKIP_WITHOUT_RECORDED_FILES();
  const std::map<std::string, size_t> expected = {
      {"py-spy", 3}, {"stack-svg", 2}, {"prometheus", 4}};
  std::map<std::string, size_t> found;
  for (const auto& file : fs::recursive_directory_iterator(Recorded(""))) {
    const std::string path = file.path().string();
    const bool swept = path.find("/gpud/") != std::string::npos ||
                       path.find("/azhpc-") != std::string::npos ||
                       path.find("/azurehpc-") != std::string::npos ||
                       path.find("/nvidia_gpu_exporter/") != std::string::npos;
    if (!file.is_regular_file() || swept) continue;
    const Result<std::unique_ptr<Input>> input = Input::Open(path);
    if (!input.ok()) continue;
    const Result<const Importer*> importer = ChooseImporter(**input, "");
    if (!importer.ok()) continue;
    for (const char* kind : {"py-spy", "py-spy-json", "faulthandler", "gdb", "stack-svg",
                             "kernel-log", "fabric-manager", "nvidia-smi", "ibstat", "ib-sysfs",
                             "dcgmi", "dcgmi-json", "prometheus"}) {
      if ((*importer)->kind == std::string_view(kind)) ++found[kind];
    }
  }
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace flare::import
