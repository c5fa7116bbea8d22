// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/run_segments.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "diag/cli/private_dir.h"
#include "diag/cli/segment_facts.h"

namespace flare::cli {
namespace {

constexpr const char* kLockName = "/run.lock";

bool WritableMemory(const std::string& path) {
  struct statfs info {};
  return !path.empty() && statfs(path.c_str(), &info) == 0 && info.f_type == TMPFS_MAGIC &&
         access(path.c_str(), W_OK | X_OK) == 0;
}

Result<std::string> Base() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  for (const std::string& memory : {std::string("/dev/shm"), std::string(runtime ? runtime : "")}) {
    if (!WritableMemory(memory)) continue;
    const std::string base = memory + "/flare-" + std::to_string(geteuid());
    if (Status status = MakePrivateDir(base); !status.ok()) return status;
    return base;
  }
  return Status::Error("/dev/shm is missing or not writable");
}

// A descriptor that holds the lock, or -1.
int TakeLock(const std::string& folder, int flags) {
  const int fd = open((folder + kLockName).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

// Memory of runs that were killed before they could clean up, once none of their ranks lives.
void RemoveAbandoned(const std::string& base) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(base, error)) {
    const std::string path = entry.path().string();
    if (!entry.path().filename().string().starts_with("run-")) continue;
    const int lock = TakeLock(path, 0);
    if (lock < 0) continue;
    const std::vector<SegmentFacts> segments = FindSegments(path);
    const bool used = std::any_of(segments.begin(), segments.end(),
                                  [](const SegmentFacts& s) { return s.owner_lives; });
    if (!used) RemoveTree(path);
    close(lock);
  }
}

}  // namespace

Result<RunSegments> RunSegments::Create(const std::string& name) {
  const Result<std::string> base = Base();
  if (!base.ok()) return base.status();
  RemoveAbandoned(*base);
  const std::string path = *base + "/run-" + name;
  if (Status status = MakePrivateDir(path); !status.ok()) return status;
  const int lock = TakeLock(path, O_CREAT);
  if (lock < 0) return Status::Error(path + kLockName + ": cannot be locked");
  return RunSegments(path, lock);
}

RunSegments::RunSegments(RunSegments&& other) noexcept
    : path_(std::move(other.path_)), lock_fd_(other.lock_fd_) {
  other.path_.clear();
  other.lock_fd_ = -1;
}

RunSegments::~RunSegments() {
  if (!path_.empty()) RemoveTree(path_);
  if (lock_fd_ >= 0) close(lock_fd_);
}

}  // namespace flare::cli
