// SPDX-License-Identifier: Apache-2.0
#include "diag/import/walk.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

namespace flare::import {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 64;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

class Walker {
 public:
  void Name(const std::string& path) {
    struct stat facts {};
    if (path.empty() || stat(path.c_str(), &facts) != 0) {
      walk_.errors.push_back(path + ": " + std::strerror(path.empty() ? ENOENT : errno));
    } else if (S_ISDIR(facts.st_mode)) {
      Enter(path, facts, 0);
    } else {
      Add(path, facts, true);  // what is no regular file is refused when it is opened
    }
  }

  Walk Finish() {
    if (hidden_ > 0) Note(hidden_, "hidden file or folder", "hidden files or folders");
    if (special_ > 0) Note(special_, "special file", "special files");
    if (full_) {
      walk_.notes.push_back("only the first " + std::to_string(kMostFiles) + " files are used");
    }
    return std::move(walk_);
  }

 private:
  void Note(size_t count, const char* one, const char* many) {
    walk_.notes.push_back(count == 1 ? std::string("a ") + one + " left out"
                                     : std::to_string(count) + " " + many + " left out");
  }

  bool IsNew(const struct stat& facts) {
    return seen_.insert({static_cast<uint64_t>(facts.st_dev), static_cast<uint64_t>(facts.st_ino)})
        .second;
  }

  void Add(const std::string& path, const struct stat& facts, bool named) {
    if (!IsNew(facts)) {
      // Found in a folder, and named as well: then it must be readable.
      const auto listed = listed_.find({facts.st_dev, facts.st_ino});
      if (named && listed != listed_.end()) walk_.files[listed->second].named = true;
      return;
    }
    if (walk_.files.size() >= kMostFiles) {
      full_ = true;
      return;
    }
    listed_[{facts.st_dev, facts.st_ino}] = walk_.files.size();
    walk_.files.push_back({path, static_cast<uint64_t>(facts.st_size), named});
  }

  void Enter(const std::string& folder, const struct stat& facts, int depth) {
    if (full_ || !IsNew(facts)) return;
    if (depth > kDeepest) {
      walk_.notes.push_back(folder + ": more than " + std::to_string(kDeepest) +
                            " folders deep; left out");
      return;
    }
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    if (error) {
      // A folder that was named and cannot be read must not look like an empty one.
      (depth == 0 ? walk_.errors : walk_.notes).push_back(folder + ": " + error.message());
    }
    std::sort(names.begin(), names.end(), NaturallyBefore);
    for (const std::string& name : names) Visit(folder, name, depth);
  }

  void Visit(const std::string& folder, const std::string& name, int depth) {
    if (name.starts_with(".")) {
      ++hidden_;
      return;
    }
    const std::string path = folder.ends_with("/") ? folder + name : folder + "/" + name;
    struct stat facts {};
    if (stat(path.c_str(), &facts) != 0) {
      walk_.notes.push_back(path + ": " + std::strerror(errno));
    } else if (S_ISDIR(facts.st_mode)) {
      Enter(path, facts, depth + 1);
    } else if (S_ISREG(facts.st_mode)) {
      Add(path, facts, false);
    } else {
      ++special_;
    }
  }

  Walk walk_;
  std::set<std::pair<uint64_t, uint64_t>> seen_;             // device and inode
  std::map<std::pair<uint64_t, uint64_t>, size_t> listed_;  // of files: their place in the list
  size_t hidden_ = 0, special_ = 0;
  bool full_ = false;
};

}  // namespace

bool NaturallyBefore(const std::string& a, const std::string& b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!IsDigit(a[i]) || !IsDigit(b[j])) {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i, ++j;
      continue;
    }
    const auto number = [](const std::string& text, size_t* at) {
      while (*at < text.size() && text[*at] == '0') ++*at;
      const size_t begin = *at;
      while (*at < text.size() && IsDigit(text[*at])) ++*at;
      return text.substr(begin, *at - begin);
    };
    const std::string left = number(a, &i), right = number(b, &j);
    if (left.size() != right.size()) return left.size() < right.size();
    if (left != right) return left < right;
  }
  // "01" and "1" are equal as numbers: any fixed order will do.
  return a.size() - i != b.size() - j ? a.size() - i < b.size() - j : a < b;
}

Walk WalkPaths(const std::vector<std::string>& paths) {
  Walker walker;
  for (const std::string& path : paths) walker.Name(path);
  return walker.Finish();
}

}  // namespace flare::import
