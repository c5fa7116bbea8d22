// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/process_identity.h"

#include <sys/syscall.h>
#include <unistd.h>
#include <csignal>

#include <cerrno>
#include <sstream>

#include "diag/cli/atomic_file.h"

namespace flare::cli {

std::optional<ProcessIdentity> IdentifyProcess(pid_t pid) {
  const Result<std::string> stat = ReadSmallFile("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!stat.ok()) return std::nullopt;
  // The name in field 2 may hold spaces and parentheses: fields count from the last one.
  const size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat->substr(name_end + 1));
  std::string field;
  uint64_t start = 0;
  for (int number = 3; number <= 22 && fields >> field; ++number) {
    if (number == 3 && (field == "Z" || field == "X")) return std::nullopt;
    if (number == 22) start = std::strtoull(field.c_str(), nullptr, 10);
  }
  if (start == 0) return std::nullopt;
  return ProcessIdentity{pid, start};
}

bool StillRuns(const ProcessIdentity& process) { return IdentifyProcess(process.pid) == process; }

bool SignalExactly(const ProcessIdentity& process, int signal) {
  // The descriptor pins the process: what is checked after it was taken is what gets the signal.
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  if (fd < 0) {
    if (errno != ENOSYS) return false;
    return StillRuns(process) && kill(process.pid, signal) == 0;  // Linux before 5.3
  }
  const bool sent =
      StillRuns(process) && syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0) == 0;
  close(fd);
  return sent;
}

std::string BootId() {
  const Result<std::string> id = ReadSmallFile("/proc/sys/kernel/random/boot_id", 64);
  return id.ok() ? id->substr(0, id->find('\n')) : "";
}

}  // namespace flare::cli
