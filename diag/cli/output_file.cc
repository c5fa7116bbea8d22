// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace flare::cli {

OutputFile::~OutputFile() {
  if (fd_ > STDERR_FILENO) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Status OutputFile::Open() {
  if (path_ == "-") {
    fd_ = STDOUT_FILENO;
    return Status::Ok();
  }
  temporary_ = path_ + ".XXXXXX";
  fd_ = mkostemp(temporary_.data(), O_CLOEXEC);
  if (fd_ < 0) {
    temporary_.clear();
    return Status::Error(path_ + ": " + std::strerror(errno));
  }
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(fd_, 0666 & ~mask);
  return Status::Ok();
}

bool OutputFile::Write(std::string_view bytes) {
  while (!bytes.empty() && status_.ok()) {
    const ssize_t wrote = write(fd_, bytes.data(), bytes.size());
    if (wrote >= 0) {
      bytes.remove_prefix(static_cast<size_t>(wrote));
    } else if (errno != EINTR) {
      status_ = Status::Error(path_ + ": " + std::strerror(errno));
    }
  }
  return status_.ok();
}

Status OutputFile::Complete() {
  if (temporary_.empty() || !status_.ok()) return status_;
  if (fsync(fd_) != 0 || rename(temporary_.c_str(), path_.c_str()) != 0) {
    return Status::Error(path_ + ": " + std::strerror(errno));
  }
  temporary_.clear();
  return Status::Ok();
}

}  // namespace flare::cli
