// SPDX-License-Identifier: Apache-2.0
#include "daemon/host/process_probe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "tests/daemon/segment_fixture.h"

namespace flare::daemon {
namespace {

class ProcessProbeTest : public ::testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = std::filesystem::path(root_.path()) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  static std::string StatLine(const std::string& name, char state) {
    return "77 (" + name + ") " + state +
           " 1 77 77 0 -1 4194304 900 0 13 0 250 50 0 0 20 0 4 0 987654 1000000 500 0\n";
  }

  TemporaryDirectory root_;
  ProcessProbe probe_{root_.path()};
};

TEST_F(ProcessProbeTest, StatLineIsParsedWhateverTheNameHolds) {
  const auto stat = ParseStat(StatLine("py) R (thon 1 2 3", 'T'));
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->run_state, 'T');
  EXPECT_EQ(stat->major_faults, 13u);
  EXPECT_EQ(stat->start_clock_ticks, 987654u);
  EXPECT_EQ(stat->cpu_ns, 300ull * 1'000'000'000 / static_cast<uint64_t>(sysconf(_SC_CLK_TCK)));
}

TEST_F(ProcessProbeTest, TextThatIsNoStatLineGivesNothing) {
  EXPECT_FALSE(ParseStat("").has_value());
  EXPECT_FALSE(ParseStat("77 (x").has_value());
  EXPECT_FALSE(ParseStat("77 (x) S 1 2").has_value());
  EXPECT_FALSE(ParseStat("77 (x) S a b c d e f g h i j k l m n o p q r s t u").has_value());
}

TEST_F(ProcessProbeTest, SleepInAReadNamesTheFileBehindTheDescriptor) {
  Put("77/stat", StatLine("python", 'S'));
  Put("77/task/77/stat", StatLine("python", 'D'));
  Put("77/task/77/schedstat", "123456789 4567 2\n");
  Put("77/task/77/wchan", "pipe_read");
  Put("77/task/77/syscall", "0 0x5 0x7f00 0x10 0x0 0x0 0x0 0x7ffc 0x7f12\n");
  std::filesystem::create_directories(root_.path() + "/77/fd");
  std::filesystem::create_symlink("/data/train.bin", root_.path() + "/77/fd/5");
  const auto snapshot = probe_.Snapshot(77, 77);
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_EQ(snapshot->main_thread_state, 'D');
  EXPECT_EQ(snapshot->main_thread_cpu_ns, 123456789u);
  EXPECT_EQ(snapshot->main_thread_run_delay_ns, 4567u);
  EXPECT_EQ(snapshot->syscall, "read");
  EXPECT_EQ(snapshot->syscall_path, "/data/train.bin");
  EXPECT_EQ(snapshot->wait_channel, "pipe_read");
}

TEST_F(ProcessProbeTest, WhatMayNotBeReadStaysEmpty) {
  Put("77/stat", StatLine("python", 'R'));
  Put("77/task/77/syscall", "running\n");
  const auto snapshot = probe_.Snapshot(77, 77);
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_EQ(snapshot->syscall, "");
  EXPECT_EQ(snapshot->wait_channel, "");
  EXPECT_FALSE(probe_.Snapshot(78, 78).has_value());
}

TEST_F(ProcessProbeTest, KernelThatCountsNoSchedulingLeavesTheDelayUnknown) {
  Put("77/stat", StatLine("python", 'R'));
  Put("77/task/77/stat", StatLine("python", 'R'));
  const uint64_t from_stat = ParseStat(StatLine("python", 'R'))->cpu_ns;
  for (const char* text : {"0 0 0\n", "", "7\n", "x y z\n", "-1 -2 3\n"}) {
    Put("77/task/77/schedstat", text);
    const auto snapshot = probe_.Snapshot(77, 77);
    ASSERT_TRUE(snapshot.has_value());
    EXPECT_EQ(snapshot->main_thread_run_delay_ns, 0u) << text;
    EXPECT_EQ(snapshot->main_thread_cpu_ns, from_stat) << text;
  }
}

TEST_F(ProcessProbeTest, UnknownCallIsNamedByItsNumber) {
  Put("77/stat", StatLine("python", 'S'));
  Put("77/task/77/syscall", "9999 0x5 0x0 0x0 0x0 0x0 0x0 0x0 0x0\n");
  EXPECT_EQ(probe_.Snapshot(77, 77)->syscall, "syscall_9999");
}

// A child that opens a FIFO nobody writes to: the path is an argument, read from its memory.
TEST(ProcessProbeLiveTest, OpenOfAFifoIsSeenWithItsPath) {
  TemporaryDirectory directory;
  const std::string fifo = directory.path() + "/never";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const pid_t child = fork();
  if (child == 0) {
    const int fd = open(fifo.c_str(), O_RDONLY);
    _exit(fd < 0 ? 1 : 0);
  }
  const ProcessProbe probe;
  std::optional<ProcessSnapshot> snapshot;
  const uint64_t give_up = MonotonicNs() + 10'000'000'000;
  do {
    snapshot = probe.Snapshot(child, child);
  } while (snapshot && snapshot->syscall_path != fifo && MonotonicNs() < give_up);
  const bool has_syscall_file = !ReadSmallFile("/proc/self/syscall").empty();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (!has_syscall_file) GTEST_SKIP() << "the kernel has no /proc/PID/syscall";
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_TRUE(snapshot->syscall == "openat" || snapshot->syscall == "open") << snapshot->syscall;
  EXPECT_EQ(snapshot->syscall_path, fifo);
}

// Two busy children that may use one CPU only: each waits for the other about half of the time.
TEST(ProcessProbeLiveTest, ThreadThatSharesItsCpuIsSeenToWaitForIt) {
  cpu_set_t allowed, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  pid_t children[2];
  for (pid_t& child : children) {
    child = fork();
    if (child == 0) {
      sched_setaffinity(0, sizeof(one), &one);
      for (std::atomic<unsigned> spin{0};; ++spin) {
      }
    }
  }
  const ProcessProbe probe;
  const bool counted = !ReadSmallFile("/proc/self/schedstat").empty();
  const uint64_t give_up = MonotonicNs() + 20'000'000'000;
  uint64_t delay_ns = 0;
  while (counted && delay_ns < 100'000'000 && MonotonicNs() < give_up) {
    const auto snapshot = probe.Snapshot(children[0], children[0]);
    if (snapshot) delay_ns = snapshot->main_thread_run_delay_ns;
  }
  for (const pid_t child : children) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  if (!counted) GTEST_SKIP() << "the kernel has no /proc/PID/schedstat";
  EXPECT_GE(delay_ns, 100'000'000u);
}

TEST(ProcessProbeLiveTest, OwnProcessHasCpuTimeAndAUser) {
  EXPECT_GT(ProcessCpuNs(getpid()), 0u);
  EXPECT_EQ(ProcessCpuNs(0x7ffffff0), 0u);
  const ProcessProbe probe;
  EXPECT_TRUE(probe.RunsAs(getpid(), getuid()));
  EXPECT_FALSE(probe.RunsAs(getpid(), getuid() + 1));
  EXPECT_NE(probe.PidNamespace(getpid()), 0u);
}

}  // namespace
}  // namespace flare::daemon
