// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "libflare/bus_guard.h"
#include "libflare/core/bounded_text.h"
#include "libflare/debug_log.h"
#include "libflare/process_facts.h"
#include "libflare/recorder_state.h"
#include "libflare/version.h"

// From inert to recording, at most once per process.
// Weak: musl has none, and must still be able to load the library.
extern "C" __attribute__((weak)) int on_exit(void (*function)(int, void*), void* argument);

namespace flare {
namespace {

enum WakeState : uint32_t { kAsleep = 0, kWaking = 1, kAwake = 2, kRefused = 3 };
constinit std::atomic<uint32_t> g_wake_state{kAsleep};

constexpr int kMaxAncestors = 16;

// Entries of a directory as the kernel gives them.
struct DirectoryEntry {
  uint64_t inode;
  int64_t offset;
  unsigned short length;
  unsigned char type;
  char name[1];
};

struct Ancestors {
  int pids[kMaxAncestors];
  uint64_t start_clock_ticks[kMaxAncestors];
  int count = 0;
};

Ancestors FindAncestors() {
  Ancestors found;
  int pid = static_cast<int>(syscall(SYS_getppid));
  while (pid > 1 && found.count < kMaxAncestors) {
    int parent;
    uint64_t start;
    if (!ReadProcessStat(pid, &parent, &start)) break;
    found.pids[found.count] = pid;
    found.start_clock_ticks[found.count++] = start;
    pid = parent;
  }
  return found;
}

// Is `name` the segment of this job and rank, made by an ancestor that still lives?
bool IsOfAncestor(const char* name, const char* prefix, const Ancestors& ancestors) {
  const size_t length = strlen(prefix);
  if (strncmp(name, prefix, length) != 0) return false;
  uint64_t pid = 0;
  const char* cursor = name + length;
  while (*cursor >= '0' && *cursor <= '9' && pid < (1u << 30)) {
    pid = pid * 10 + static_cast<uint64_t>(*cursor++ - '0');
  }
  if (*cursor != '.') return false;
  for (int i = 0; i < ancestors.count; ++i) {
    if (static_cast<uint64_t>(ancestors.pids[i]) != pid) continue;
    char path[512];
    BoundedText(path).Add(g_state.config.directory).AddChar('/').Add(name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return false;
    uint64_t start = 0;
    const ssize_t count =
        pread(fd, &start, sizeof(start), offsetof(SegmentHeader, process_start_clock_ticks));
    close(fd);
    return count == sizeof(start) && start == ancestors.start_clock_ticks[i];
  }
  return false;
}

// A program that a rank starts inherits its variables; it is not that rank a second time.
bool AncestorIsThisRank() {
  char prefix[128];
  BoundedText(prefix)
      .AddSanitised(g_state.config.job)
      .AddChar('.')
      .AddNumber(g_state.config.rank)
      .AddChar('.');
  const int fd = open(g_state.config.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  const Ancestors ancestors = FindAncestors();
  bool found = false;
  alignas(8) char buffer[4096];
  long bytes;
  while (!found && (bytes = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0) {
    for (long at = 0; at < bytes && !found;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      found = IsOfAncestor(entry->name, prefix, ancestors);
      at += entry->length;
    }
  }
  close(fd);
  return found;
}

void FillHeader(const Config& config, uint64_t source_id, TickSource source,
                SegmentHeader* header) {
  header->source_id = source_id;
  header->pid = CurrentPid();
  header->main_tid = header->pid;
  int parent;
  ReadProcessStat(header->pid, &parent, &header->process_start_clock_ticks);
  header->pid_namespace = PidNamespace();
  header->rank = config.rank;
  header->world_size = config.world_size;
  header->local_rank = config.local_rank;
  header->attempt = config.attempt;
  BoundedText(header->job).Add(config.job);
  BoundedText(header->job_name).Add(config.job_name);
  utsname machine;
  if (uname(&machine) == 0) BoundedText(header->node).Add(machine.nodename);
  BoundedText(header->library_version).Add(kLibraryVersion);
  header->phase.store(static_cast<uint32_t>(ProcessPhase::kRunning), std::memory_order_relaxed);
  header->enabled.store(1, std::memory_order_relaxed);
  header->tick_source = static_cast<uint32_t>(source);
  header->anchor_monotonic_ns = MonotonicNs();
  header->anchor_ticks = ReadTicks(source);
  header->anchor_realtime_ns = RealtimeNs();
}

void RecordExitStatus(int status, void*) {
  if (!OwnsSegment() || !IsRecording()) return;
  // No guard from here: the program may have forbidden itself new system calls by now.
  Header()->exit_code.store(status & 0xff, std::memory_order_relaxed);
  Header()->phase.store(static_cast<uint32_t>(ProcessPhase::kExited), std::memory_order_release);
}

// The reason why not, or null once awake.
const char* Wake() {
  const Config& config = g_state.config;
  if (!PrepareGate()) return "this process is a forked child, or memory is short";
  if (KillSwitchPresent()) return "a file named disable is present";
  if (AncestorIsThisRank()) return "an ancestor is this rank already";

  const uint64_t source_id = NewSourceId();
  char name[128];
  BoundedText(name)
      .AddSanitised(config.job)
      .AddChar('.')
      .AddNumber(config.rank)
      .AddChar('.')
      .AddNumber(static_cast<uint32_t>(CurrentPid()))
      .AddChar('.')
      .AddNumber(source_id, 16)
      .Add(".seg");
  Segment segment;
  const SegmentError error =
      CreateSegment(config.directory, name, config.threads, config.ring_events, &segment);
  switch (error) {
    case SegmentError::kNone:
      break;
    case SegmentError::kDirectory:
      return "the segment directory cannot be used";
    case SegmentError::kSpace:
      return "no room for a segment";
    default:
      return "the segment could not be made";
  }
  const TickSource source = ChooseTickSource();
  FillHeader(config, source_id, source, segment.header());
  if (PublishSegment(&segment) != SegmentError::kNone) {
    DiscardSegment(&segment);
    return "the segment could not be given its name";
  }
  segment.header()->part_state[static_cast<size_t>(Part::kLock)].store(
      static_cast<uint32_t>(segment.locked ? PartState::kActive : PartState::kFailed));
  ArmRecorder(segment, source);
  if (on_exit != nullptr) on_exit(RecordExitStatus, nullptr);
  DebugLog("awake: ", segment.path);
  return nullptr;
}

// Ranks started inside a program, as by torch.multiprocessing, set their variables late.
bool MayWake(WakeReason reason) {
  if (g_state.config.disabled) return false;
  if (g_state.config.source == RankSource::kNone && reason == WakeReason::kCall) {
    ReadConfig(environ, geteuid(), static_cast<int>(syscall(SYS_getppid)), &g_state.config);
    if (g_state.config.disabled) return false;
  }
  switch (g_state.config.source) {
    case RankSource::kNone:
      return false;
    case RankSource::kScheduler:
      return reason == WakeReason::kCall;
    default:
      return true;
  }
}

}  // namespace

bool EnsureAwake(WakeReason reason) {
  const GatePage* page = CurrentGatePage();
  if (page != nullptr && page->live == 0) return false;  // a forked child
  uint32_t state = g_wake_state.load(std::memory_order_acquire);
  if (state == kAwake) return IsRecording();
  if (state != kAsleep) return false;
  if (!g_wake_state.compare_exchange_strong(state, kWaking)) return false;
  ErrnoKeeper keep;
  if (!MayWake(reason)) {
    g_wake_state.store(kAsleep, std::memory_order_release);
    return false;
  }
  const char* refusal = Wake();
  if (refusal != nullptr) DebugLog("stays inert: ", refusal);
  if (refusal == nullptr && reason != WakeReason::kLoad) EnsureBusGuard();
  g_wake_state.store(refusal == nullptr ? kAwake : kRefused, std::memory_order_release);
  return refusal == nullptr;
}

}  // namespace flare
