// SPDX-License-Identifier: Apache-2.0
// Checks of `flare doctor` without a process: this machine, this user, this environment.
#include <gnu/libc-version.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "diag/cli/atomic_file.h"
#include "diag/cli/doctor_check.h"
#include "diag/cli/preload.h"
#include "diag/cli/private_dir.h"
#include "diag/cli/probe.h"
#include "diag/cli/segment_facts.h"
#include "diag/report/plain_text.h"
#include "libflare/core/segment_layout.h"

extern char** environ;

namespace flare::cli {
namespace {

constexpr int kAnswerTimeoutMs = 1000;
constexpr uint64_t kRankBytes = ComputeGeometry(32, 4096).total;  // of a rank at default settings
constexpr size_t kListedSegments = 20;

std::string MiB(uint64_t bytes) { return diag::Number(bytes / 1048576.0) + " MiB"; }

Check Versions() {
  return {"version", CheckLevel::kOk,
          "flare " FLARE_VERSION ", segment layout " + std::to_string(kSegmentVersion) +
              ", glibc " + gnu_get_libc_version(),
          ""};
}

// The library, and what it does to a process. The later checks need the earlier ones.
void CheckLibrary(std::vector<Check>* checks) {
  const Result<std::string> library = FindLibrary();
  if (!library.ok()) {
    checks->push_back({"library", CheckLevel::kProblem, library.status().message(),
                       "install libflare.so beside this program or set FLARE_PRELOAD to its path"});
    return;
  }
  checks->push_back({"library", CheckLevel::kOk, *library, ""});
  const char* existing = std::getenv("LD_PRELOAD");
  const std::string value = PreloadValue(existing != nullptr ? existing : "", *library);
  if (Status status = TryPreload(value); !status.ok()) {
    checks->push_back({"preload", CheckLevel::kProblem, "preloading it fails: " + status.message(),
                       "reinstall it for this machine; until then jobs run without FLARE"});
    return;
  }
  checks->push_back({"preload", CheckLevel::kOk, "'true' runs unchanged under it", ""});
  if (Status status = TryWaking(value); !status.ok()) {
    checks->push_back({"waking", CheckLevel::kProblem, "it does not wake: " + status.message(),
                       "see the checks of shared memory and of switches below"});
    return;
  }
  checks->push_back({"waking", CheckLevel::kOk, "woken on purpose, it leaves a segment", ""});
}

Check SharedMemory() {
  const std::string path = "/dev/shm";
  struct statfs info {};
  if (statfs(path.c_str(), &info) != 0) {
    return {"shared_memory", CheckLevel::kProblem, path + ": " + std::strerror(errno),
            "mount a tmpfs there, or set FLARE_DIR to a folder in one"};
  }
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    return {"shared_memory", CheckLevel::kProblem, path + " is not writable for this user",
            "chmod 1777 /dev/shm, or set FLARE_DIR to a folder in another tmpfs"};
  }
  const uint64_t free = uint64_t{info.f_bavail} * info.f_bsize;
  const std::string text = path + " has " + MiB(free) + " free; a rank takes " + MiB(kRankBytes);
  if (info.f_type != TMPFS_MAGIC) {
    return {"shared_memory", CheckLevel::kWarning, path + " is not a tmpfs: segments go to a disk",
            "mount a tmpfs there"};
  }
  if (free < kRankBytes) {
    return {"shared_memory", CheckLevel::kProblem, text + ", so no rank can be traced",
            "free some, or give containers more (docker run --shm-size=1g)"};
  }
  if (free < 16 * kRankBytes) {
    return {"shared_memory", CheckLevel::kWarning, text,
            "enough for " + std::to_string(free / kRankBytes) +
                " ranks; give containers more (docker run --shm-size=1g)"};
  }
  return {"shared_memory", CheckLevel::kOk, text, ""};
}

Check SegmentFolder(const std::string& folder) {
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0) {
    if (errno == ENOENT) return {"segment_dir", CheckLevel::kOk, folder + " is not there yet", ""};
    return {"segment_dir", CheckLevel::kProblem, folder + ": " + std::strerror(errno),
            "set FLARE_DIR to a folder of your own"};
  }
  const std::string remove = "remove " + folder + " (its owner or root can) or set FLARE_DIR";
  if (!S_ISDIR(info.st_mode)) {
    return {"segment_dir", CheckLevel::kProblem, folder + " is not a folder", remove};
  }
  if (info.st_uid != geteuid()) {
    return {"segment_dir", CheckLevel::kProblem,
            folder + " belongs to user " + std::to_string(info.st_uid), remove};
  }
  if ((info.st_mode & 0077) != 0) {
    return {"segment_dir", CheckLevel::kWarning, folder + " can be entered by others",
            "chmod 700 " + folder};
  }
  return {"segment_dir", CheckLevel::kOk, folder + " belongs to you alone", ""};
}

void CheckSwitches(const std::string& folder, std::vector<Check>* checks) {
  bool off = false;
  for (const std::string& path : {folder + "/disable", std::string("/run/flare/disable")}) {
    if (access(path.c_str(), F_OK) != 0) continue;
    off = true;
    checks->push_back({"kill_switch", CheckLevel::kProblem, path + " switches all tracing off",
                       "remove it when that is no longer wanted"});
  }
  const char* disable = std::getenv("FLARE_DISABLE");
  if (disable != nullptr && *disable != 0 && std::strcmp(disable, "0") != 0) {
    off = true;
    checks->push_back({"kill_switch", CheckLevel::kProblem,
                       "FLARE_DISABLE is set in this environment", "unset FLARE_DISABLE"});
  }
  if (!off) checks->push_back({"kill_switch", CheckLevel::kOk, "no kill switch is set", ""});
}

Check FlareVariables() {
  std::string found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "FLARE_", 6) != 0) continue;
    found += (found.empty() ? "" : ", ") + diag::Printable(*entry, 200);
  }
  return {"environment", found.empty() ? CheckLevel::kOk : CheckLevel::kNote,
          found.empty() ? "no FLARE_ variables are set" : found, ""};
}

// Other tools that are preloaded or that take the place FLARE needs.
void CheckOtherTools(std::vector<Check>* checks) {
  const char* preload = std::getenv("LD_PRELOAD");
  if (preload == nullptr || *preload == 0) {
    checks->push_back({"other_preloads", CheckLevel::kOk, "LD_PRELOAD is empty", ""});
  } else {
    std::string words = preload;
    for (char& c : words) c = c == ':' ? ' ' : c;
    std::istringstream entries(words);
    for (std::string entry; entries >> entry;) {
      const bool missing = entry.find('/') != std::string::npos && access(entry.c_str(), R_OK) != 0;
      checks->push_back({"other_preloads", missing ? CheckLevel::kWarning : CheckLevel::kNote,
                         missing ? entry + " is in LD_PRELOAD but cannot be read"
                                 : entry + " is preloaded too; FLARE goes after it",
                         missing ? "take it out of LD_PRELOAD" : ""});
    }
  }
  for (const char* name : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != 0) {
      checks->push_back({"profiler", CheckLevel::kNote,
                         std::string(name) + "=" + value + ": a profiler is attached to jobs", ""});
    }
  }
}

void CheckSegments(const std::string& folder, std::vector<Check>* checks) {
  const std::vector<SegmentFacts> segments = FindSegments(folder);
  for (size_t i = 0; i < segments.size() && i < kListedSegments; ++i) {
    const SegmentFacts& s = segments[i];
    if (!s.problem.ok()) {
      checks->push_back({"segment", CheckLevel::kWarning, s.path + ": " + s.problem.message(),
                         "use libflare.so, flared and flare of one release; remove old segments"});
      continue;
    }
    if (s.library_version != FLARE_VERSION) {
      checks->push_back({"segment", CheckLevel::kWarning,
                         "rank " + std::to_string(s.rank) + " of " + s.job + " runs libflare " +
                             diag::Printable(s.library_version, 40) + ", this is " FLARE_VERSION,
                         "use libflare.so, flared, flare-engine and flare of one release"});
      continue;
    }
    checks->push_back({"segment", s.enabled ? CheckLevel::kOk : CheckLevel::kNote,
                       "rank " + std::to_string(s.rank) + " of " + s.job + ", process " +
                           std::to_string(s.pid) + (s.owner_lives ? ", running" : ", gone") +
                           ", libflare " + s.library_version + (s.enabled ? "" : ", switched off"),
                       ""});
  }
  if (segments.size() > kListedSegments) {
    checks->push_back({"segment", CheckLevel::kNote,
                       "and " + std::to_string(segments.size() - kListedSegments) + " more", ""});
  }
}

// Stacks of a rank are read from outside it; these settings may forbid it.
void CheckPermissions(std::vector<Check>* checks) {
  const Result<std::string> yama = ReadSmallFile("/proc/sys/kernel/yama/ptrace_scope", 16);
  const int scope = yama.ok() ? std::atoi(yama->c_str()) : 0;
  if (scope <= 0 || geteuid() == 0) {
    checks->push_back({"stacks", CheckLevel::kOk, "stacks of your processes can be read", ""});
  } else if (scope == 1) {
    checks->push_back({"stacks", CheckLevel::kNote,
                       "stacks can be read by 'flare run', not by a flared without privileges "
                       "(kernel.yama.ptrace_scope is 1)",
                       "give flared CAP_SYS_PTRACE, or sysctl kernel.yama.ptrace_scope=0"});
  } else {
    checks->push_back(
        {"stacks", CheckLevel::kWarning,
         "stacks cannot be read: kernel.yama.ptrace_scope is " + std::to_string(scope),
         "run flared with CAP_SYS_PTRACE, or sysctl kernel.yama.ptrace_scope=1"});
  }
  const bool proc = access("/proc/self/stat", R_OK) == 0;
  const bool others = access("/proc/1/stat", R_OK) == 0;
  if (!proc) {
    checks->push_back({"proc", CheckLevel::kProblem, "/proc is not mounted",
                       "mount it: without it nobody can see whether a rank runs"});
  } else {
    checks->push_back(
        {"proc", others ? CheckLevel::kOk : CheckLevel::kNote,
         others ? "/proc shows all processes" : "/proc hides processes of other users (hidepid)",
         ""});
  }
}

Check Python() {
  for (const char* program : {"python", "python3"}) {
    const Result<ProbeResult> result = RunProbe({program, "--version"}, {}, kAnswerTimeoutMs * 5);
    if (!result.ok() || result->exit_status != 0) continue;
    const std::string version =
        diag::Printable(result->output.substr(0, result->output.find('\n')));
    return {"python", CheckLevel::kOk, std::string(program) + " is " + version, ""};
  }
  return {"python", CheckLevel::kNote, "no python is in PATH", ""};
}

}  // namespace

const char* CheckLevelName(CheckLevel level) {
  static constexpr const char* kNames[] = {"ok", "note", "warning", "problem"};
  return kNames[static_cast<int>(level)];
}

std::vector<Check> CheckMachine(const SourceOptions& sources) {
  const std::string folder = DefaultSegmentDir();
  std::vector<Check> checks = {Versions()};
  CheckLibrary(&checks);
  CheckOtherTools(&checks);
  checks.push_back(SharedMemory());
  checks.push_back(SegmentFolder(folder));
  CheckSwitches(folder, &checks);
  checks.push_back(FlareVariables());
  for (Check& check : CheckServices(sources, folder)) checks.push_back(std::move(check));
  CheckSegments(folder, &checks);
  CheckPermissions(&checks);
  checks.push_back(Python());
  return checks;
}

}  // namespace flare::cli
