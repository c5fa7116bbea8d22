// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

// What the kernel tells about a process, read from /proc without the process noticing.
//
// Every field is optional in effect: what may not be read (permissions, another kernel, a process
// that has gone) stays empty or zero. The text of /proc is parsed as untrusted. Safe from any
// thread; keeps no state.
namespace flare::daemon {

// One line of /proc/PID/stat.
struct ProcessStat {
  char run_state = 0;  // R S D T t Z X I
  uint64_t major_faults = 0;
  uint64_t cpu_ns = 0;  // user and system, in steps of a clock tick
  uint64_t start_clock_ticks = 0;
};

struct ProcessSnapshot {
  ProcessStat stat;
  uint64_t main_thread_cpu_ns = 0;
  uint64_t main_thread_run_delay_ns = 0;  // runnable but without a CPU, ever; 0 unknown
  char main_thread_state = 0;
  std::string syscall;       // of the main thread, empty when it runs or may not be asked
  std::string syscall_path;  // file behind its descriptor or path argument
  std::string wait_channel;
};

class ProcessProbe {
 public:
  // `proc_root` is replaced in tests.
  explicit ProcessProbe(std::string proc_root = "/proc") : root_(std::move(proc_root)) {}

  // Nothing when there is no such process.
  std::optional<ProcessStat> Stat(pid_t pid) const;
  // Inode of the PID namespace of a process, 0 unknown.
  uint64_t PidNamespace(pid_t pid) const;
  // Whether the process runs as `uid`; a segment may claim any pid, but only its user's count.
  bool RunsAs(pid_t pid, uid_t uid) const;
  // Everything. `main_tid` is the thread asked about; 0 takes the process's first.
  std::optional<ProcessSnapshot> Snapshot(pid_t pid, pid_t main_tid) const;

 private:
  void ReadMainThread(const std::string& task, pid_t pid, ProcessSnapshot* out) const;
  void ReadSyscall(const std::string& task, pid_t pid, ProcessSnapshot* out) const;

  std::string root_;
};

// CPU time of all threads of a process by its CPU clock, exact to the nanosecond; 0 when the
// process is not there. Costs one system call.
uint64_t ProcessCpuNs(pid_t pid);

// Parses a line of /proc/PID/stat. The name in it may hold anything, also parentheses.
std::optional<ProcessStat> ParseStat(const std::string& line);

// The first bytes of a file, or empty. Never blocks: for files of /proc.
std::string ReadSmallFile(const std::string& path, size_t limit = 4096);

}  // namespace flare::daemon
