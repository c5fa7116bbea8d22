// SPDX-License-Identifier: Apache-2.0
#include "libflare/process_facts.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "libflare/core/bounded_text.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace flare {
namespace {

const char* ParseUnsigned(const char* text, uint64_t* value) {
  *value = 0;
  while (*text >= '0' && *text <= '9') *value = *value * 10 + static_cast<uint64_t>(*text++ - '0');
  return text;
}

}  // namespace

int CurrentPid() { return static_cast<int>(syscall(SYS_getpid)); }
int CurrentTid() { return static_cast<int>(syscall(SYS_gettid)); }

long ReadSmallFile(const char* path, char* buffer, size_t size) {
  buffer[0] = '\0';
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return -1;
  const long count = read(fd, buffer, size - 1);
  close(fd);
  buffer[count > 0 ? count : 0] = '\0';
  return count;
}

bool ReadProcessStat(int pid, int* parent_pid, uint64_t* start_clock_ticks) {
  char path[48];
  char text[1024];
  BoundedText(path).Add("/proc/").AddNumber(static_cast<uint32_t>(pid)).Add("/stat");
  if (ReadSmallFile(path, text, sizeof(text)) <= 0) return false;
  // The name in field 2 may hold spaces and parentheses: count from the last one.
  const char* cursor = std::strrchr(text, ')');
  if (cursor == nullptr) return false;
  ++cursor;
  uint64_t value = 0;
  for (int field = 3; field <= 22; ++field) {
    while (*cursor == ' ') ++cursor;
    if (*cursor == '\0') return false;
    if (field == 4 || field == 22) {
      ParseUnsigned(cursor, &value);
      if (field == 4) *parent_pid = static_cast<int>(value);
    }
    while (*cursor != ' ' && *cursor != '\0') ++cursor;
  }
  *start_clock_ticks = value;
  return true;
}

uint64_t PidNamespace() {
  char link[64];
  const ssize_t count = readlink("/proc/self/ns/pid", link, sizeof(link) - 1);
  if (count <= 0) return 0;
  link[count] = '\0';
  const char* number = std::strchr(link, '[');
  if (number == nullptr) return 0;
  uint64_t inode;
  ParseUnsigned(number + 1, &inode);
  return inode;
}

TickSource ChooseTickSource() {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  const bool invariant = __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
  if (!invariant) return TickSource::kMonotonicNs;
  char source[64];
  if (ReadSmallFile("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
                    sizeof(source)) <= 0) {
    return TickSource::kTsc;
  }
  // A kernel that found the counter unreliable has moved to hpet or acpi_pm.
  const bool trusted = std::strncmp(source, "tsc", 3) == 0 ||
                       std::strncmp(source, "kvm-clock", 9) == 0 ||
                       std::strncmp(source, "hyperv_clocksource_tsc_page", 27) == 0;
  return trusted ? TickSource::kTsc : TickSource::kMonotonicNs;
#else
  return TickSource::kMonotonicNs;
#endif
}

uint64_t NewSourceId() {
  uint64_t id = 0;
#if defined(SYS_getrandom)
  constexpr unsigned kNonBlocking = 1;
  if (syscall(SYS_getrandom, &id, sizeof(id), kNonBlocking) != sizeof(id)) id = 0;
#endif
  if (id == 0) {
    id = (RealtimeNs() * 0x9e3779b97f4a7c15ull) ^ (static_cast<uint64_t>(CurrentPid()) << 32) ^
         reinterpret_cast<uintptr_t>(&id);
  }
  return id == 0 ? 1 : id;
}

}  // namespace flare
