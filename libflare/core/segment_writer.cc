// SPDX-License-Identifier: Apache-2.0
#include "libflare/core/segment_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libflare/core/bounded_text.h"

namespace flare {
namespace {

// Descriptors from here on: programs that count on low numbers see no change.
constexpr int kHighDescriptor = 200;
constexpr int kLowestKept = 20;  // below, the number belongs to the program

int MoveHigh(int fd) {
  for (int lowest : {kHighDescriptor, 64, kLowestKept}) {
    const int high = fcntl(fd, F_DUPFD_CLOEXEC, lowest);
    if (high >= 0) {
      close(fd);
      return high;
    }
  }
  return fd;
}

// 0 or an error number. Growing past RLIMIT_FSIZE would raise SIGXFSZ, so ask first.
int Allocate(int fd, uint64_t bytes) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      limit.rlim_cur < bytes) {
    return EFBIG;
  }
  // Not posix_fallocate: where the file system cannot, that one writes every block itself.
  for (int attempt = 0; attempt < 16; ++attempt) {
    if (syscall(SYS_fallocate, fd, 0, off_t{0}, static_cast<off_t>(bytes)) == 0) return 0;
    if (errno != EINTR) return errno;
  }
  return EINTR;
}

// Halves the rings, then the thread slots, until the file fits.
bool AllocateWhatFits(Segment* segment) {
  for (;;) {
    const uint64_t bytes = ComputeGeometry(segment->thread_count, segment->ring_events).total;
    const int error = Allocate(segment->fd, bytes);
    if (error == 0) {
      segment->bytes = bytes;
      return true;
    }
    if (error != ENOSPC && error != EFBIG && error != EDQUOT && error != ENOMEM) return false;
    if (ftruncate(segment->fd, 0) != 0) return false;  // gives a partial allocation back
    if (segment->ring_events > kMinRingEvents) {
      segment->ring_events /= 2;
    } else if (segment->thread_count > kMinThreadSlots) {
      segment->thread_count =
          segment->thread_count / 2 > kMinThreadSlots ? segment->thread_count / 2 : kMinThreadSlots;
    } else {
      return false;
    }
  }
}

void WriteGeometry(Segment* segment) {
  const SegmentGeometry g = ComputeGeometry(segment->thread_count, segment->ring_events);
  SegmentHeader* header = segment->header();
  header->magic = kSegmentMagic;
  header->version = kSegmentVersion;
  header->header_bytes = sizeof(SegmentHeader);
  header->total_bytes = g.total;
  header->names_offset = g.names;
  header->comms_offset = g.comms;
  header->threads_offset = g.threads;
  header->rings_offset = g.rings;
  header->thread_count = segment->thread_count;
  header->ring_events = segment->ring_events;
}

}  // namespace

SegmentError PrepareDirectory(const char* directory) {
  if (mkdir(directory, 0700) != 0 && errno != EEXIST) return SegmentError::kDirectory;
  const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return SegmentError::kDirectory;
  // By system call: the C library's fstat got a new symbol version in 2.33.
  struct stat status;
  const bool known = syscall(SYS_fstat, fd, &status) == 0;
  close(fd);
  if (!known || status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return SegmentError::kDirectory;
  }
  return SegmentError::kNone;
}

SegmentError CreateSegment(const char* directory, const char* name, uint32_t thread_count,
                           uint32_t ring_events, Segment* segment) {
  *segment = Segment();
  segment->thread_count = thread_count;
  segment->ring_events = ring_events;
  BoundedText path(segment->path);
  path.Add(directory).AddChar('/').Add(name);
  BoundedText temporary(segment->temporary_path);
  temporary.Add(directory).Add("/.").Add(name).Add(".new");
  if (path.cut() || temporary.cut()) return SegmentError::kCreate;
  const SegmentError directory_error = PrepareDirectory(directory);
  if (directory_error != SegmentError::kNone) return directory_error;

  const int fd =
      open(segment->temporary_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return SegmentError::kCreate;
  segment->fd = MoveHigh(fd);
  struct stat status;
  if (syscall(SYS_fstat, segment->fd, &status) == 0) segment->inode = status.st_ino;
  if (!AllocateWhatFits(segment)) {
    DiscardSegment(segment);
    return SegmentError::kSpace;
  }
  void* base = mmap(nullptr, segment->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, 0);
  if (base == MAP_FAILED) {
    DiscardSegment(segment);
    return SegmentError::kMap;
  }
  segment->base = static_cast<char*>(base);
  WriteGeometry(segment);
  if (segment->fd < kLowestKept) {  // a tight RLIMIT_NOFILE: go without the lock
    close(segment->fd);
    segment->fd = -1;
    return SegmentError::kNone;
  }
  // After the descriptor has its final number: closing any descriptor of a file drops its locks.
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = 0;
  lock.l_len = 1;
  segment->locked = fcntl(segment->fd, F_SETLK, &lock) == 0;
  return SegmentError::kNone;
}

SegmentError PublishSegment(Segment* segment) {
  segment->header()->ready.store(1, std::memory_order_release);
  if (rename(segment->temporary_path, segment->path) != 0) return SegmentError::kPublish;
  segment->temporary_path[0] = '\0';
  return SegmentError::kNone;
}

void DiscardSegment(Segment* segment) {
  if (segment->base != nullptr) munmap(segment->base, segment->bytes);
  if (segment->fd >= 0) close(segment->fd);
  if (segment->temporary_path[0] != '\0') {
    unlink(segment->temporary_path);
  } else if (segment->path[0] != '\0') {
    unlink(segment->path);
  }
  *segment = Segment();
}

}  // namespace flare
