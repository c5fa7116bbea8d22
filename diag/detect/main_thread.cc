// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/main_thread.h"

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <string_view>

#include "diag/detect/frame_meaning.h"
#include "diag/detect/words.h"

namespace flare::diag {
namespace {

constexpr double kOnCpuShare = 0.5;
// Of a thread that is runnable when looked at: on a crowded machine a loop gets little more. A
// thread that merely wakes now and then uses less.
constexpr double kCrowdedShare = 0.05;
constexpr uint64_t kShortestLookNs = 100'000'000;  // CPU clocks tick in 10 ms

bool OneOf(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

bool IsTerminal(std::string_view path) {
  return path.starts_with("/dev/pts/") || path.starts_with("/dev/tty") || path == "/dev/console";
}

bool IsFile(std::string_view path) {
  if (!path.starts_with('/')) return false;  // "socket:[1]", "pipe:[2]", "anon_inode:..."
  return !path.starts_with("/dev/") || path.starts_with("/dev/shm/");
}

bool InFileSystem(const ProcessState& process) {
  if (process.run_state == 'D') return true;
  // These only ever work on paths and files.
  if (OneOf(process.syscall,
            {"open",       "openat",    "openat2",  "creat",     "stat",     "lstat",
             "newfstatat", "statx",     "statfs",   "fstatfs",   "fsync",    "fdatasync",
             "sync",       "syncfs",    "flock",    "rename",    "renameat", "renameat2",
             "unlink",     "unlinkat",  "mkdir",    "mkdirat",   "getdents", "getdents64",
             "access",     "faccessat", "truncate", "ftruncate", "fallocate"})) {
    return true;
  }
  return OneOf(process.syscall,
               {"read", "write", "pread64", "pwrite64", "readv", "writev", "preadv", "pwritev",
                "fcntl", "sendfile", "copy_file_range", "splice"}) &&
         IsFile(process.syscall_path);
}

// The innermost telling call of the main thread: the one begun last. Calls of other threads say
// nothing about what holds the program up.
const OpenCall* InnermostCall(const RankState& state) {
  const OpenCall* innermost = nullptr;
  for (const OpenCall& call : state.open_calls) {
    const bool tells = call.kind != EventKind::kBackward && call.kind != EventKind::kUserCall &&
                       call.kind != EventKind::kOptimizer && call.kind != EventKind::kNone;
    if (!call.main_thread || !tells) continue;
    if (innermost == nullptr || call.since_unix_ns >= innermost->since_unix_ns) innermost = &call;
  }
  return innermost;
}

double CpuShare(const RankRecord& record) {
  const uint64_t at = record.state.at_unix_ns;
  const uint64_t cpu = record.state.process.main_thread_cpu_ns;
  if (record.previous_at_unix_ns == 0 || at < record.previous_at_unix_ns + kShortestLookNs)
    return -1;
  if (cpu < record.previous_main_thread_cpu_ns) return -1;
  return static_cast<double>(cpu - record.previous_main_thread_cpu_ns) /
         static_cast<double>(at - record.previous_at_unix_ns);
}

std::string SystemCallText(const ProcessState& process) {
  if (process.syscall.empty()) return process.run_state == 'D' ? "uninterruptible sleep" : "";
  return process.syscall_path.empty() ? process.syscall
                                      : process.syscall + " on " + process.syscall_path;
}

std::string CpuText(double share) {
  char text[64];
  std::snprintf(text, sizeof text, "main thread on the CPU %.0f %% of the time", share * 100);
  return text;
}

// `in_torch`: the thread waits inside the library.
void FromSystemCallAndCpu(const RankRecord& record, bool in_torch, Activity* activity) {
  const ProcessState& process = record.state.process;
  const bool runnable = process.run_state == 'R' && process.syscall.empty() &&
                        (activity->cpu_share < 0 || activity->cpu_share > kCrowdedShare);
  const bool on_cpu = activity->cpu_share > kOnCpuShare || runnable;
  if (on_cpu) {
    activity->doing = in_torch ? Doing::kUnknown : Doing::kUserCode;
    activity->busy = activity->doing == Doing::kUserCode && !process.python_stack.empty();
    activity->detail = activity->cpu_share >= 0 ? CpuText(activity->cpu_share) : "running";
    return;
  }
  activity->detail = SystemCallText(process);
  if (OneOf(process.syscall, {"read", "readv"}) && IsTerminal(process.syscall_path)) {
    activity->doing = Doing::kUserCode;
    activity->busy = true;
  } else if (InFileSystem(process)) {
    activity->doing = Doing::kFileSystem;
    activity->busy = true;
  } else if (OneOf(process.syscall, {"nanosleep", "clock_nanosleep", "wait4", "waitid", "pause"})) {
    activity->doing = Doing::kUserCode;
    activity->busy = true;
  } else if (in_torch) {
    activity->doing = Doing::kWaitsForPeers;
  } else if (OneOf(process.syscall, {"futex", "futex_wait", "futex_waitv"}) ||
             process.wait_channel.starts_with("futex")) {
    activity->doing = Doing::kLock;
  } else if (!process.syscall.empty() && !activity->place.empty()) {
    activity->doing = Doing::kUserCode;  // select, poll, recvfrom ...: on its own errand
  }
}

}  // namespace

Activity ActivityOf(const RankRecord& record) {
  const RankState& state = record.state;
  const std::vector<StackFrame>& stack = state.process.python_stack;
  Activity activity;
  if (const StackFrame* frame = PlaceOf(stack)) activity.place = FrameText(*frame);
  activity.cpu_share = CpuShare(record);
  if (const OpenCall* call = InnermostCall(state)) {
    activity.since_unix_ns = call->since_unix_ns;
    switch (call->kind) {
      case EventKind::kDataLoad:
        activity.doing = Doing::kDataLoad;
        break;
      case EventKind::kCheckpoint:
        activity.doing = Doing::kCheckpoint;
        break;
      case EventKind::kGc:
        activity.doing = Doing::kGc;
        break;
      default:
        activity.doing = Doing::kWaitsForPeers;
        return activity;
    }
    activity.busy = true;
    activity.detail = SystemCallText(state.process);
    return activity;
  }
  const Meaning meaning = MeaningOf(stack).meaning;
  if (meaning == Meaning::kDataLoad || meaning == Meaning::kCheckpoint) {
    activity.doing = meaning == Meaning::kDataLoad ? Doing::kDataLoad : Doing::kCheckpoint;
    activity.busy = true;
    activity.detail = SystemCallText(state.process);
  } else {
    FromSystemCallAndCpu(record, WaitsForPeers(meaning) || meaning == Meaning::kBackward,
                         &activity);
  }
  return activity;
}

}  // namespace flare::diag
