// SPDX-License-Identifier: Apache-2.0
#include "diag/engine/state_dir.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

namespace flare::diag {
namespace {

namespace fs = std::filesystem;

constexpr size_t kOwnerDigits = 16;

std::string NewOwner() {
  std::random_device chance;
  char text[kOwnerDigits + 1];
  snprintf(text, sizeof(text), "%08x%08x", chance(), chance());
  return text;
}

bool LooksLikeOwner(const std::string& owner) {
  return owner.size() == kOwnerDigits &&
         owner.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Status SystemError(const std::string& what) {
  return Status::Error(what + ": " + std::strerror(errno));
}

// The locked file, or -1 with errno; EWOULDBLOCK when somebody else holds it.
int OpenLocked(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

std::string DefaultStateDir() {
  if (const char* xdg = getenv("XDG_STATE_HOME"); xdg && *xdg == '/') {
    return std::string(xdg) + "/flare";
  }
  if (const char* home = getenv("HOME"); home && *home) {
    return std::string(home) + "/.local/state/flare";
  }
  const passwd* user = getpwuid(getuid());
  return std::string(user && user->pw_dir ? user->pw_dir : "/tmp") + "/.local/state/flare";
}

Result<std::unique_ptr<StateDir>> StateDir::Open(const std::string& path, bool advertise) {
  if (path.empty()) return Status::Error("no state directory was given");
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  const bool existed = fs::exists(absolute, error);
  fs::create_directories(absolute, error);
  if (error) return Status::Error("state directory " + path + ": " + error.message());
  // Reports name files and exceptions of jobs: nobody else's business.
  if (!existed) chmod(absolute.c_str(), 0700);
  std::unique_ptr<StateDir> dir(new StateDir(absolute.string(), advertise));
  if (Status s = dir->LockAll(); !s.ok()) return s.Prefixed("state directory " + path);
  return dir;
}

Status StateDir::LockAll() {
  if (advertise_) {
    engine_lock_ = OpenLocked(path_ + "/engine.lock", O_CREAT);
    if (engine_lock_ < 0 && errno == EWOULDBLOCK) {
      return Status::Error(
          "another flare-engine runs here; stop it, or give this one its own --state-dir");
    }
    if (engine_lock_ < 0) return SystemError("engine.lock");
    unlink((path_ + "/engine.addr").c_str());  // of an engine that was killed
  }
  RemoveStaleLocks();
  owner_ = NewOwner();
  owner_lock_ = OpenLocked(OwnerLock(owner_), O_CREAT | O_EXCL);
  return owner_lock_ < 0 ? SystemError("owner lock") : Status::Ok();
}

StateDir::~StateDir() {
  if (advertised_) unlink((path_ + "/engine.addr").c_str());
  if (owner_lock_ >= 0) {
    unlink(OwnerLock(owner_).c_str());
    close(owner_lock_);
  }
  if (engine_lock_ >= 0) close(engine_lock_);
}

bool StateDir::OwnerIsGone(const std::string& owner) const {
  if (owner == owner_) return false;
  if (!LooksLikeOwner(owner)) return true;
  const int fd = OpenLocked(OwnerLock(owner), 0);
  if (fd >= 0) {
    close(fd);
    return true;
  }
  return errno == ENOENT;
}

void StateDir::RemoveStaleLocks() const {
  std::error_code error;
  for (fs::directory_iterator it(path_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    constexpr size_t kPrefix = sizeof("owner-") - 1;
    if (!name.starts_with("owner-") || !name.ends_with(".lock")) continue;
    const std::string owner = name.substr(kPrefix, name.size() - kPrefix - sizeof(".lock") + 1);
    // The moment between creating and locking belongs to the other engine: leave young files alone.
    struct stat status {};
    if (stat(it->path().c_str(), &status) != 0 || time(nullptr) - status.st_mtime < 60) continue;
    if (LooksLikeOwner(owner) && OwnerIsGone(owner)) unlink(it->path().c_str());
  }
}

Status StateDir::Advertise(const std::string& address) {
  if (!advertise_) return Status::Ok();
  const std::string path = path_ + "/engine.addr";
  const std::string draft = path + ".new";
  std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(draft.c_str(), "w"), fclose);
  if (!file || fprintf(file.get(), "%s\n", address.c_str()) < 0 || fflush(file.get()) != 0) {
    return SystemError(draft);
  }
  if (rename(draft.c_str(), path.c_str()) != 0) return SystemError(path);
  advertised_ = true;
  return Status::Ok();
}

}  // namespace flare::diag
