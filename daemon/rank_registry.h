// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/owner_probe.h"
#include "daemon/tracked_rank.h"

// The traced processes of this node, kept in step with the segment files in one directory.
//
// Finds files made before or after the daemon started. A file that cannot be used is named in the
// log once and counted; one that is still being made is looked at again. The directory may come,
// go and come back. Used by the daemon's loop only.
namespace flare::daemon {

class RankRegistry {
 public:
  RankRegistry(std::string directory, std::string node, ProcessProbe probe);
  ~RankRegistry();

  // Looks for new files, and at the life of every owner. Returns the ranks that are new.
  std::vector<TrackedRank*> Scan(uint64_t now_ns);

  const std::vector<std::unique_ptr<TrackedRank>>& ranks() const { return ranks_; }
  // Forgets a rank and removes its file, when it still is the file that we read.
  void Remove(const TrackedRank* rank);

  uint64_t rejected() const { return rejected_; }

  static constexpr size_t kMaxRanks = 512;

 private:
  void OpenDirectory();
  TrackedRank* Attach(const std::string& name);
  void Reject(const std::string& name, const std::string& reason);
  void MarkSuperseded();

  const std::string directory_;
  const std::string node_;
  const OwnerProbe owner_probe_;
  int directory_fd_ = -1;
  uid_t owner_ = 0;
  std::vector<std::unique_ptr<TrackedRank>> ranks_;
  std::map<std::string, uint64_t> rejected_files_;  // name to inode
  uint64_t rejected_ = 0;
};

}  // namespace flare::daemon
