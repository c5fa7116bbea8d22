// SPDX-License-Identifier: Apache-2.0
#include "daemon/host/process_probe.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <vector>

#include "daemon/clean_text.h"
#include "daemon/host/syscall_names.h"
#include "daemon/stacks/remote_memory.h"

namespace flare::daemon {
namespace {

constexpr size_t kMaxPathBytes = 256;

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  size_t i = 0;
  while (i < text.size()) {
    const size_t start = text.find_first_not_of(" \t\n", i);
    if (start == std::string_view::npos) break;
    size_t end = text.find_first_of(" \t\n", start);
    if (end == std::string_view::npos) end = text.size();
    words.push_back(text.substr(start, end - start));
    i = end;
  }
  return words;
}

template <typename Int>
std::optional<Int> ToInt(std::string_view text, int base = 10) {
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  Int value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

uint64_t ClockTicksToNs(uint64_t ticks) {
  static const uint64_t per_second = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  return ticks * (1'000'000'000u / per_second);
}

std::string ReadLink(const std::string& path) {
  char target[4096];
  const ssize_t length = readlink(path.c_str(), target, sizeof(target));
  if (length <= 0) return {};
  return CleanText(target, std::min<size_t>(static_cast<size_t>(length), kMaxPathBytes));
}

std::string ReadRemoteText(pid_t pid, uint64_t address) {
  char text[kMaxPathBytes];
  const RemoteMemory memory(pid);
  // The text may end just before an unmapped page, so read up to the page's end first.
  const size_t to_page_end = 4096 - address % 4096;
  size_t got = memory.ReadSome(address, text, std::min(sizeof(text), to_page_end));
  if (got == to_page_end && got < sizeof(text)) {
    got += memory.ReadSome(address + got, text + got, sizeof(text) - got);
  }
  return CleanText(text, got);
}

}  // namespace

std::string ReadSmallFile(const std::string& path, size_t limit) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return {};
  std::string text(limit, '\0');
  size_t got = 0;
  while (got < limit) {
    const ssize_t n = read(fd, text.data() + got, limit - got);
    if (n <= 0) break;
    got += static_cast<size_t>(n);
  }
  close(fd);
  text.resize(got);
  return text;
}

std::optional<ProcessStat> ParseStat(const std::string& line) {
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  // Fields from the third (state) on; numbered as in proc(5), so field N is at N - 3.
  const auto words = Words(std::string_view(line).substr(name_end + 1));
  if (words.size() < 20 || words[0].size() != 1) return std::nullopt;
  ProcessStat stat;
  stat.run_state = words[0][0];
  const auto major_faults = ToInt<uint64_t>(words[12 - 3]);
  const auto user = ToInt<uint64_t>(words[14 - 3]);
  const auto system = ToInt<uint64_t>(words[15 - 3]);
  const auto start = ToInt<uint64_t>(words[22 - 3]);
  if (!major_faults || !user || !system || !start) return std::nullopt;
  stat.major_faults = *major_faults;
  stat.cpu_ns = ClockTicksToNs(*user + *system);
  stat.start_clock_ticks = *start;
  return stat;
}

std::optional<ProcessStat> ProcessProbe::Stat(pid_t pid) const {
  if (pid <= 0) return std::nullopt;
  return ParseStat(ReadSmallFile(root_ + "/" + std::to_string(pid) + "/stat"));
}

uint64_t ProcessProbe::PidNamespace(pid_t pid) const {
  struct stat st;
  const std::string path = root_ + "/" + std::to_string(pid) + "/ns/pid";
  return stat(path.c_str(), &st) == 0 ? st.st_ino : 0;
}

bool ProcessProbe::RunsAs(pid_t pid, uid_t uid) const {
  // The real, effective, saved and file system uid; the directory's owner would be root for a
  // process that is not dumpable.
  const std::string status = ReadSmallFile(root_ + "/" + std::to_string(pid) + "/status");
  const size_t line = status.find("\nUid:");
  if (line == std::string::npos) return false;
  const auto words = Words(std::string_view(status).substr(line + 5, 64));
  return !words.empty() && ToInt<uid_t>(words[0]) == uid;
}

std::optional<ProcessSnapshot> ProcessProbe::Snapshot(pid_t pid, pid_t main_tid) const {
  const auto stat = Stat(pid);
  if (!stat) return std::nullopt;
  ProcessSnapshot snapshot;
  snapshot.stat = *stat;
  const std::string process = root_ + "/" + std::to_string(pid);
  ReadMainThread(process + "/task/" + std::to_string(main_tid > 0 ? main_tid : pid), pid,
                 &snapshot);
  return snapshot;
}

void ProcessProbe::ReadMainThread(const std::string& task, pid_t pid, ProcessSnapshot* out) const {
  if (const auto stat = ParseStat(ReadSmallFile(task + "/stat"))) {
    out->main_thread_state = stat->run_state;
    out->main_thread_cpu_ns = stat->cpu_ns;
  }
  // "time on the CPU, time waiting for one, timeslices"; "0 0 0" from a kernel that does not count.
  const std::string schedule = ReadSmallFile(task + "/schedstat");
  const auto words = Words(schedule);
  if (words.size() >= 2) {
    const auto cpu_ns = ToInt<uint64_t>(words[0]), delay_ns = ToInt<uint64_t>(words[1]);
    if (cpu_ns && *cpu_ns != 0) out->main_thread_cpu_ns = *cpu_ns;
    if (delay_ns) out->main_thread_run_delay_ns = *delay_ns;
  }
  const std::string channel = ReadSmallFile(task + "/wchan", 128);
  if (channel != "0") out->wait_channel = CleanText(channel.data(), channel.size());
  ReadSyscall(task, pid, out);
}

void ProcessProbe::ReadSyscall(const std::string& task, pid_t pid, ProcessSnapshot* out) const {
  // "running", or "-1 sp pc" (blocked, but not in a call), or "number six arguments sp pc".
  const std::string text = ReadSmallFile(task + "/syscall", 512);
  const auto words = Words(text);
  if (words.size() < 9) return;
  const auto number = ToInt<int64_t>(words[0]);
  if (!number || *number < 0) return;
  const SyscallName call = NameSyscall(*number);
  out->syscall = call.name;
  if (call.argument == SyscallArgument::kDescriptor) {
    const auto fd = ToInt<uint64_t>(words[1], 16);
    if (!fd || *fd > 0x7fffffff) return;
    out->syscall_path = ReadLink(root_ + "/" + std::to_string(pid) + "/fd/" + std::to_string(*fd));
  } else if (call.argument != SyscallArgument::kNone) {
    const bool second = call.argument == SyscallArgument::kPathAfterDescriptor;
    const auto address = ToInt<uint64_t>(words[second ? 2 : 1], 16);
    if (address) out->syscall_path = ReadRemoteText(pid, *address);
  }
}

uint64_t ProcessCpuNs(pid_t pid) {
  if (pid <= 0) return 0;
  // What clock_getcpuclockid gives, without the system call by which it checks that pid exists.
  const auto clock = static_cast<clockid_t>(~static_cast<unsigned>(pid) << 3 | 2);
  timespec t;
  if (clock_gettime(clock, &t) != 0) return 0;
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace flare::daemon
