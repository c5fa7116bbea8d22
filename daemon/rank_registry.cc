// SPDX-License-Identifier: Apache-2.0
#include "daemon/rank_registry.h"

#include <dirent.h>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "daemon/clean_text.h"

namespace flare::daemon {
namespace {

constexpr const char* kSegmentSuffix = ".seg";
constexpr size_t kMaxRejected = 4096;

std::string Printable(const std::string& name) { return CleanText(name.data(), name.size()); }

}  // namespace

RankRegistry::RankRegistry(std::string directory, std::string node, ProcessProbe probe)
    : directory_(std::move(directory)), node_(std::move(node)), owner_probe_(std::move(probe)) {}

RankRegistry::~RankRegistry() {
  if (directory_fd_ >= 0) close(directory_fd_);
}

void RankRegistry::OpenDirectory() {
  if (directory_fd_ >= 0) {
    // Still the directory of that name? It may have been removed and made again.
    struct stat held, named;
    if (fstat(directory_fd_, &held) == 0 && stat(directory_.c_str(), &named) == 0 &&
        held.st_ino == named.st_ino && held.st_dev == named.st_dev) {
      return;
    }
    close(directory_fd_);
    directory_fd_ = -1;
  }
  directory_fd_ = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat st;
  if (directory_fd_ >= 0 && fstat(directory_fd_, &st) == 0) owner_ = st.st_uid;
}

std::vector<TrackedRank*> RankRegistry::Scan(uint64_t now_ns) {
  std::vector<TrackedRank*> added;
  OpenDirectory();
  const int listing = directory_fd_ < 0 ? -1 : openat(directory_fd_, ".", O_RDONLY | O_CLOEXEC);
  DIR* entries = listing < 0 ? nullptr : fdopendir(listing);
  if (entries == nullptr && listing >= 0) close(listing);
  while (entries != nullptr) {
    const dirent* entry = readdir(entries);
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (!name.ends_with(kSegmentSuffix)) continue;
    // The inode of the directory entry may differ from the file's on a layered file system.
    struct stat st;
    if (fstatat(directory_fd_, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const bool known = std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& rank) {
      return rank->file_name() == name && rank->segment().inode() == st.st_ino;
    });
    const auto rejected = rejected_files_.find(name);
    if (known || (rejected != rejected_files_.end() && rejected->second == st.st_ino)) continue;
    if (TrackedRank* rank = Attach(name)) added.push_back(rank);
  }
  if (entries != nullptr) closedir(entries);
  MarkSuperseded();
  for (const auto& rank : ranks_) rank->Look(now_ns);
  return added;
}

TrackedRank* RankRegistry::Attach(const std::string& name) {
  if (ranks_.size() >= kMaxRanks) {
    Reject(name, "more than " + std::to_string(kMaxRanks) + " segments");
    return nullptr;
  }
  Result<std::unique_ptr<SegmentReader>> segment = SegmentReader::Open(directory_fd_, name, owner_);
  if (!segment.ok()) {
    Reject(name, segment.status().message());
    return nullptr;
  }
  if (segment.value() == nullptr) return nullptr;
  const bool twice = std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& rank) {
    return rank->identity().source_id == segment.value()->identity().source_id;
  });
  if (twice) {
    Reject(name, "its source id is already in use");
    return nullptr;
  }
  ranks_.push_back(
      std::make_unique<TrackedRank>(name, std::move(segment).value(), &owner_probe_, node_));
  return ranks_.back().get();
}

void RankRegistry::Reject(const std::string& name, const std::string& reason) {
  ++rejected_;
  spdlog::warn("segment {}: {}", Printable(name), reason);
  struct stat st;
  if (rejected_files_.size() >= kMaxRejected) rejected_files_.clear();
  if (fstatat(directory_fd_, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) {
    rejected_files_[name] = st.st_ino;
  }
}

void RankRegistry::MarkSuperseded() {
  // exec keeps the pid and the start time; the program after it makes a segment of its own.
  for (const auto& older : ranks_) {
    if (older->ended_ns() != 0) continue;
    const SegmentIdentity& a = older->identity();
    for (const auto& newer : ranks_) {
      const SegmentIdentity& b = newer->identity();
      if (a.pid == b.pid && a.pid_namespace == b.pid_namespace &&
          a.process_start_clock_ticks == b.process_start_clock_ticks &&
          a.anchor_monotonic_ns < b.anchor_monotonic_ns &&
          older->segment().uid() == newer->segment().uid()) {
        older->Supersede();
      }
    }
  }
}

void RankRegistry::Remove(const TrackedRank* rank) {
  struct stat st;
  if (directory_fd_ >= 0 &&
      fstatat(directory_fd_, rank->file_name().c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
      st.st_ino == rank->segment().inode()) {
    unlinkat(directory_fd_, rank->file_name().c_str(), 0);
  }
  std::erase_if(ranks_, [rank](const auto& held) { return held.get() == rank; });
}

}  // namespace flare::daemon
