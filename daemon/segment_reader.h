// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libflare/core/clock.h"
#include "libflare/core/segment_layout.h"
#include "libflare/core/status.h"

// The daemon's view of one segment file, whose content is another process's and may be hostile.
//
// Every field is copied once, checked, and only the copy is used. Reads go through pread, not
// through a mapping, so a file that shrinks while we look gives an error, not a SIGBUS. Texts are
// cut at the first zero and cleaned to printable UTF-8. Not thread-safe; one thread at a time.
// The destructor closes the file and leaves it in place.
namespace flare::daemon {

// What never changes after the segment is ready.
struct SegmentIdentity {
  uint64_t source_id = 0;
  TickSource tick_source = TickSource::kMonotonicNs;
  uint64_t anchor_ticks = 0, anchor_monotonic_ns = 0, anchor_realtime_ns = 0;
  uint32_t thread_count = 0;
  uint32_t ring_events = 0;
  int32_t pid = 0;
  int32_t main_tid = 0;
  uint64_t process_start_clock_ticks = 0;
  uint64_t pid_namespace = 0;
  uint32_t rank = 0, world_size = 0, local_rank = 0, attempt = 0;
  std::string job, job_name, node, library_version;
};

// What changes while the process runs.
struct SegmentFacts {
  uint32_t python_version_hex = 0;
  uint64_t python_runtime_address = 0;
  uint64_t python_main_thread_state = 0;
  std::string framework;
  uint32_t part_state[static_cast<size_t>(Part::kCount)] = {};
  uint64_t drops[static_cast<size_t>(DropReason::kCount)] = {};
  uint32_t name_count = 0;
  uint64_t steps = 0;
  uint64_t step_ticks = 0;
  uint32_t phase = 0;  // ProcessPhase, or a value nobody knows
  int32_t exit_code = 0;
  std::string exception_type, exception_text;
  bool enabled = true;
};

struct OpenCallCopy {
  EventKind kind = EventKind::kNone;
  Operation operation = Operation::kUnknown;
  DataType data_type = DataType::kUnknown;
  uint8_t flags = 0;
  uint64_t start_ticks = 0, comm = 0, sequence = 0, bytes = 0;
  int32_t peer = kNoPeer;
  uint32_t name_id = 0;
  uint32_t tid = 0;
};

struct CommunicatorCopy {
  uint64_t comm = 0;
  uint32_t group_rank = 0, group_size = 0, name_id = 0;
  uint64_t launched = 0, completed = 0, last_end_ticks = 0;
  uint64_t p2p_launched = 0, p2p_completed = 0;
  std::vector<CollectiveSignature> recent;  // oldest first
};

class SegmentReader {
 public:
  // A null pointer when the segment is still being made (not ready). `owner` is the only user,
  // beside our own, whose files are accepted.
  static Result<std::unique_ptr<SegmentReader>> Open(int directory_fd, const std::string& name,
                                                     uid_t owner);
  // The same for an open file; takes the descriptor, also on failure.
  static Result<std::unique_ptr<SegmentReader>> FromFd(int fd, uid_t owner);
  ~SegmentReader();
  SegmentReader(const SegmentReader&) = delete;
  SegmentReader& operator=(const SegmentReader&) = delete;

  const SegmentIdentity& identity() const { return identity_; }
  uint64_t inode() const { return inode_; }
  uid_t uid() const { return uid_; }  // owner of the file

  Result<SegmentFacts> ReadFacts() const;
  // Calls that are open now, in all threads. A slot that changes while we read it is left out.
  Result<std::vector<OpenCallCopy>> ReadOpenCalls() const;
  Result<std::vector<CommunicatorCopy>> ReadCommunicators(bool with_recent) const;
  // The interned name, empty when there is none. Kept after the first look.
  const std::string& Name(uint32_t id);

  // Copies bytes of the thread slots or rings; false when the file is too short.
  bool ReadAt(uint64_t offset, void* out, size_t bytes) const;
  uint64_t ThreadSlotOffset(uint32_t thread) const;
  uint64_t EventOffset(uint32_t thread, uint64_t index) const;

  // Fields that are the daemon's to write; false when the file is gone or shorter than it was.
  bool WriteTail(uint32_t thread, uint64_t tail);
  bool WriteEnabled(bool enabled);

  // Process that holds the owner's lock, as a pid of our namespace: 0 when nobody does, -1 when
  // somebody does whose pid we cannot see or the lock cannot be asked.
  pid_t LockHolder() const;

 private:
  explicit SegmentReader(int fd) : fd_(fd) {}
  // Ok(false): not ready yet.
  Result<bool> Load(uid_t owner);
  Result<bool> CheckFile(uid_t owner);
  bool ReadOpenCall(uint64_t offset, const unsigned char* first_look, uint32_t tid,
                    OpenCallCopy* out) const;
  bool WriteAt(uint64_t offset, const void* bytes, size_t count);

  int fd_;
  uint64_t inode_ = 0;
  uid_t uid_ = 0;
  SegmentIdentity identity_;
  SegmentGeometry geometry_{};
  std::vector<std::string> names_;
};

}  // namespace flare::daemon
