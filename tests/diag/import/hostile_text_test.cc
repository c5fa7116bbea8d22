// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "tests/diag/import/read_text.h"

// Importers of stacks and of what hosts say, given what they should never get. A crash, or memory
// without bound, is the failure; sanitizers see the rest.
namespace flare::import {
namespace {

// One of the seeds of the fuzzer, by kind.
std::map<std::string, std::string> Seeds() {
  std::map<std::string, std::string> seeds;
  for (const char* kind :
       {"py-spy", "py-spy-json", "faulthandler", "gdb", "stack-svg", "kernel-log", "fabric-manager",
        "nvidia-smi", "ibstat", "ib-sysfs", "dcgmi", "dcgmi-json", "prometheus"}) {
    for (const auto& file :
         std::filesystem::directory_iterator(std::string(FLARE_CORPUS "/") + kind)) {
      std::ifstream stream(file.path(), std::ios::binary);
      seeds[kind] = std::string(std::istreambuf_iterator<char>(stream), {});
    }
  }
  return seeds;
}

TEST(HostileTextTest, EachSeedIsRecognisedAsItsKindAndRead) {
  for (const auto& [kind, seed] : Seeds()) {
    ASSERT_FALSE(seed.empty()) << kind;
    const Result<Fragment> fragment = ReadText(seed);
    ASSERT_TRUE(fragment.ok()) << kind << ": " << fragment.status().message();
    EXPECT_EQ(fragment->kind, kind);
    EXPECT_FALSE(fragment->ranks.empty() && fragment->signals.empty()) << kind;
  }
}

TEST(HostileTextTest, FileCutOffAnywhereIsReadOrRefused) {
  for (const auto& [kind, seed] : Seeds()) {
    for (size_t size = 0; size < seed.size(); size += 7) {
      const Result<Fragment> fragment = ReadText(seed.substr(0, size), kind);
      EXPECT_NE(fragment.ok(), !fragment.status().message().empty());
    }
  }
}

TEST(HostileTextTest, FilesOfOtherKindsAreReadOrRefused) {
  const auto seeds = Seeds();
  for (const auto& [kind, ignored] : seeds) {
    for (const auto& [other, seed] : seeds) (void)ReadText(seed, kind);
    (void)ReadText("", kind);
    (void)ReadText(std::string(4096, '\0'), kind);
    (void)ReadText("\xff\xfe\x80 \xc3(\n\xed\xa0\x80", kind);
    (void)ReadText(std::string(100'000, '\n'), kind);
  }
}

TEST(HostileTextTest, EndlessLineIsCutAndSaid) {
  for (const char* kind : {"kernel-log", "nvidia-smi"}) {
    const std::string line = "[1.0] NVRM: Xid (PCI:0000:19:00): 79, " + std::string(3 << 20, 'x');
    const Result<Fragment> fragment = ReadText(line + "\n" + line, kind);
    ASSERT_TRUE(fragment.ok());
    EXPECT_THAT(fragment->notes,
                testing::Contains(testing::HasSubstr("2 lines longer than 64 KiB were cut")));
  }
}

TEST(HostileTextTest, NumbersOutOfRangeAreNoNumbers) {
  for (const char* line :
       {"[1.0] NVRM: Xid (PCI:0000:19:00): 99999999999999999999, x", "[1.0] NVRM: Xid (): -5, x",
        "[9999999999999999999999.0] NVRM: Xid (PCI:0): 9223372036854775807, x",
        "9999-99-99T99:99:99,000000+99:99 NVRM: Xid (a): 1", "<999>[ 1.0] NVRM: Xid (a): "}) {
    const Result<Fragment> fragment = ReadText(line, "kernel-log");
    ASSERT_TRUE(fragment.ok()) << line;
    EXPECT_TRUE(fragment->signals.empty() || fragment->signals[0].code == 1) << line;
  }
  const Fragment metrics = MustRead(
      "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\"} nan\nDCGM_FI_DEV_XID_ERRORS{gpu=\"0\"} inf\n"
      "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\"} -1\nDCGM_FI_DEV_XID_ERRORS{gpu=\"1\"} 5\n",
      "prometheus");
  EXPECT_EQ(metrics.signals.size(), 1u);
}

TEST(HostileTextTest, DeepJsonIsRefused) {
  std::string deep = R"({"test_categories": [], "results": )";
  for (int i = 0; i < 100'000; ++i) deep += "[";
  EXPECT_FALSE(ReadText(deep, "dcgmi-json").ok());
  EXPECT_FALSE(ReadText(deep, "py-spy-json").ok());
}

TEST(HostileTextTest, FloodOfStatementsIsFoldedWithinItsLimit) {
  std::string log;
  for (int i = 0; i < 20'000; ++i) {
    log += "[1.0] NVRM: Xid (PCI:0000:" + std::to_string(i % 6000) + ":00): 13, x\n";
  }
  const Fragment fragment = MustRead(log, "kernel-log");
  EXPECT_EQ(fragment.signals.size(), 4096u);
  EXPECT_THAT(fragment.notes, testing::Contains(testing::HasSubstr("more than 4096 different")));
}

TEST(HostileTextTest, MainThreadsKeepTheirFramesAmongTooMany) {
  std::string dump;
  for (int process = 1; process <= 2500; ++process) {
    const std::string pid = std::to_string(process);
    dump += "Process " + pid + ": python\nThread 9 (idle): \"worker\"\n";
    for (int i = 0; i < 500; ++i) dump += "    f (a.py:1)\n";
    dump += "Thread " + pid + " (active): \"MainThread\"\n    step (t.py:9)\n";
  }
  const Fragment fragment = MustRead(dump, "py-spy");
  ASSERT_EQ(fragment.ranks.size(), 2500u);
  for (size_t i : {0u, 2499u}) EXPECT_EQ(Process(fragment, i).python_stack.size(), 1u) << i;
  EXPECT_TRUE(Process(fragment, 2499).threads[0].frames.empty());
}

TEST(HostileTextTest, DeepStacksKeepTheirInnermostFrames) {
  std::string dump = "Thread 7 (active): \"MainThread\"\n";
  for (int i = 0; i < 5000; ++i) dump += "    f" + std::to_string(i) + " (a.py:1)\n";
  const Fragment fragment = MustRead(dump, "py-spy");
  const std::vector<diag::StackFrame>& stack = Process(fragment, 0).python_stack;
  EXPECT_LE(stack.size(), 512u);
  EXPECT_EQ(stack.at(0).function, "f0");
  EXPECT_THAT(fragment.notes, testing::Contains(testing::HasSubstr("stack frames left out")));
}

}  // namespace
}  // namespace flare::import
