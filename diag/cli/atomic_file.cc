// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace flare::cli {
namespace {

Status Errno(const std::string& what) { return Status::Error(what + ": " + std::strerror(errno)); }

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status WriteAll(int fd, const std::string& content) {
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Errno("write");
    done += static_cast<size_t>(n);
  }
  return fsync(fd) == 0 ? Status::Ok() : Errno("fsync");
}

}  // namespace

Status WriteFileAtomically(const std::string& path, const std::string& content, unsigned mode) {
  struct stat old {};
  const bool exists = stat(path.c_str(), &old) == 0;
  // A device or FIFO (--report-json /dev/stderr) cannot be replaced; renaming over it would destroy
  // it.
  if (exists && !S_ISREG(old.st_mode)) return Status::Error(path + ": not a regular file");
  const std::string temporary = path + ".tmp-" + std::to_string(getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                      exists ? old.st_mode & 0777 : mode);
  if (fd < 0) return Errno(temporary);
  Status status = WriteAll(fd, content);
  if (close(fd) != 0 && status.ok()) status = Errno("close");
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) status = Errno("rename");
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status.Prefixed(path);
  }
  // Makes the rename itself durable; file systems that cannot sync a folder lose nothing else.
  const int folder = open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    (void)fsync(folder);
    close(folder);
  }
  return Status::Ok();
}

Result<std::string> ReadSmallFile(const std::string& path, size_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return Errno(path);
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return Status::Error(path + ": not a regular file");
  }
  std::string content;
  char buffer[16384];
  ssize_t n = 0;
  while (content.size() < max_bytes) {
    n = read(fd, buffer, std::min(sizeof(buffer), max_bytes - content.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    content.append(buffer, static_cast<size_t>(n));
  }
  const Status failed = n < 0 ? Errno(path) : Status::Ok();
  close(fd);
  if (!failed.ok()) return failed;
  return content;
}

}  // namespace flare::cli
