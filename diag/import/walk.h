// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Files and folders that a person names, as a list of files.
//
// Folders are entered to the bottom, names in order ("rank2" before "rank10"); what begins with a
// dot and what is no regular file is left out. A symbolic link is followed, but each folder is
// entered and each file listed once, so that loops end.
namespace flare::import {

struct FoundFile {
  std::string path;
  uint64_t bytes = 0;  // as stored
  bool named = false;  // by the person, not found in a folder
};

struct Walk {
  std::vector<FoundFile> files;
  std::vector<std::string> errors;  // about named paths
  std::vector<std::string> notes;   // about what lies in folders
};

inline constexpr size_t kMostFiles = 100'000;

Walk WalkPaths(const std::vector<std::string>& paths);

// Order of names as people number them: digits compare as numbers.
bool NaturallyBefore(const std::string& a, const std::string& b);

}  // namespace flare::import
