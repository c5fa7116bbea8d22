// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/private_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "diag/cli/atomic_file.h"

namespace flare::cli {
namespace {

constexpr size_t kLongestSocketPath = 107;  // sun_path less the terminating zero
constexpr const char* kSocketName = "/engine.sock";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string UserFolder(const std::string& base) {
  return base + "/flare-" + std::to_string(geteuid());
}

}  // namespace

Status MakePrivateDir(const std::string& path) {
  std::error_code error;
  const std::filesystem::path folder(path);
  if (folder.has_parent_path()) {
    std::filesystem::create_directories(folder.parent_path(), error);
    if (error) return Status::Error(folder.parent_path().string() + ": " + error.message());
  }
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return Status::Error(path + ": " + std::strerror(errno));
  }
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return Status::Error(path + ": " + std::strerror(errno));
  if (!S_ISDIR(info.st_mode)) return Status::Error(path + ": not a folder");
  if (info.st_uid != geteuid()) return Status::Error(path + ": belongs to another user");
  if ((info.st_mode & 0077) != 0 && chmod(path.c_str(), 0700) != 0) {
    return Status::Error(path + ": " + std::strerror(errno));
  }
  return Status::Ok();
}

void RemoveTree(const std::string& path) {
  std::error_code error;  // what cannot be removed stays; nothing depends on it
  std::filesystem::remove_all(path, error);
}

std::string DefaultStateDir() {
  const std::string state = Environment("XDG_STATE_HOME");
  if (state.starts_with("/")) return state + "/flare";
  const std::string home = Environment("HOME");
  if (home.starts_with("/")) return home + "/.local/state/flare";
  return UserFolder("/tmp") + "/state";
}

std::string DefaultSegmentDir() {
  const std::string chosen = Environment("FLARE_DIR");
  return chosen.empty() ? UserFolder("/dev/shm") : chosen;
}

std::string RunDir(const std::string& state_dir, const std::string& name) {
  return state_dir + "/runs/" + name;
}

std::vector<std::string> RunDirs(const std::string& state_dir) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(state_dir + "/runs", error)) {
    if (entry.symlink_status(error).type() == std::filesystem::file_type::directory) {
      paths.push_back(entry.path().string());
    }
  }
  return paths;
}

Result<std::string> SocketPath(const std::string& run_dir, const std::string& name) {
  const std::string runtime = Environment("XDG_RUNTIME_DIR");
  std::vector<std::string> folders = {run_dir};
  if (runtime.starts_with("/")) folders.push_back(UserFolder(runtime) + "/" + name);
  folders.push_back(UserFolder("/tmp") + "/" + name);
  Status last = Status::Error("no folder for the engine's socket");
  for (const std::string& folder : folders) {
    if (folder.size() + std::strlen(kSocketName) > kLongestSocketPath) continue;
    // The folder above is checked too: in /tmp another user might have made it.
    last = MakePrivateDir(folder.substr(0, folder.rfind('/')));
    if (last.ok()) last = MakePrivateDir(folder);
    if (last.ok()) return folder + kSocketName;
  }
  return last;
}

void RemoveSocket(const std::string& address) {
  if (!address.starts_with("unix:/") || !address.ends_with(kSocketName)) return;
  const std::string path = address.substr(std::strlen("unix:"));
  unlink(path.c_str());
  rmdir(path.substr(0, path.rfind('/')).c_str());
}

bool StandaloneDaemonServes(const std::string& segment_dir) {
  const int fd = open((segment_dir + "/flared.lock").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return held;
}

std::string StandaloneDaemonVersion(const std::string& segment_dir) {
  const Result<std::string> text = ReadSmallFile(segment_dir + "/flared.lock", 64);
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

}  // namespace flare::cli
