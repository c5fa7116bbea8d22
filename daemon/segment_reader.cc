// SPDX-License-Identifier: Apache-2.0
#include "daemon/segment_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "daemon/clean_text.h"

namespace flare::daemon {
namespace {

// A field of a structure that lies, as bytes, in `copy`. The structures hold atomics, so they are
// never formed from foreign bytes; their fields are picked by offset.
template <typename T>
T Pick(const unsigned char* copy, size_t offset) {
  T value;
  std::memcpy(&value, copy + offset, sizeof(T));
  return value;
}
#define PICK(type, structure, field, copy) Pick<type>(copy, offsetof(structure, field))

std::string PickText(const unsigned char* copy, size_t offset, size_t capacity) {
  return CleanText(reinterpret_cast<const char*>(copy + offset), capacity);
}
#define PICK_TEXT(structure, field, copy) \
  PickText(copy, offsetof(structure, field), sizeof(structure::field))

constexpr int kVersionedReadTries = 3;

Operation CheckedOperation(uint8_t value) {
  return value < kOperationCount ? static_cast<Operation>(value) : Operation::kUnknown;
}
DataType CheckedDataType(uint8_t value) {
  return value < kDataTypeCount ? static_cast<DataType>(value) : DataType::kUnknown;
}

CommunicatorCopy PickCommunicator(const unsigned char* slot, bool with_recent) {
  CommunicatorCopy copy;
  copy.comm = PICK(uint64_t, CommSlot, comm, slot);
  copy.group_rank = PICK(uint32_t, CommSlot, group_rank, slot);
  copy.group_size = PICK(uint32_t, CommSlot, group_size, slot);
  copy.name_id = PICK(uint32_t, CommSlot, name_id, slot);
  copy.launched = PICK(uint64_t, CommSlot, launched, slot);
  copy.completed = PICK(uint64_t, CommSlot, completed, slot);
  copy.last_end_ticks = PICK(uint64_t, CommSlot, last_end_ticks, slot);
  copy.p2p_launched = PICK(uint64_t, CommSlot, p2p_launched, slot);
  copy.p2p_completed = PICK(uint64_t, CommSlot, p2p_completed, slot);
  const uint64_t first =
      copy.launched > kRecentCollectives ? copy.launched - kRecentCollectives : 0;
  for (uint64_t s = first; with_recent && s < copy.launched; ++s) {
    CollectiveSignature signature;
    std::memcpy(&signature,
                slot + offsetof(CommSlot, recent) + (s % kRecentCollectives) * sizeof(signature),
                sizeof(signature));
    // One that was overwritten while we copied carries another sequence: leave it out.
    if (signature.sequence != s) continue;
    signature.operation = CheckedOperation(static_cast<uint8_t>(signature.operation));
    signature.data_type = CheckedDataType(static_cast<uint8_t>(signature.data_type));
    copy.recent.push_back(signature);
  }
  return copy;
}

}  // namespace

Result<std::unique_ptr<SegmentReader>> SegmentReader::Open(int directory_fd,
                                                           const std::string& name, uid_t owner) {
  // O_NONBLOCK: a FIFO put there in the file's name must not hold the daemon.
  const int fd =
      openat(directory_fd, name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return Status::Error(std::string("cannot open: ") + std::strerror(errno));
  return FromFd(fd, owner);
}

Result<std::unique_ptr<SegmentReader>> SegmentReader::FromFd(int fd, uid_t owner) {
  std::unique_ptr<SegmentReader> reader(new SegmentReader(fd));
  Result<bool> ready = reader->Load(owner);
  if (!ready.ok()) return ready.status();
  if (!*ready) return std::unique_ptr<SegmentReader>();
  return reader;
}

SegmentReader::~SegmentReader() { close(fd_); }

Result<bool> SegmentReader::CheckFile(uid_t owner) {
  struct stat st;
  if (fstat(fd_, &st) != 0) return Status::Error("cannot stat");
  if (!S_ISREG(st.st_mode)) return Status::Error("not a regular file");
  if (st.st_uid != owner && st.st_uid != geteuid()) {
    return Status::Error("owned by uid " + std::to_string(st.st_uid) + ", want " +
                         std::to_string(owner));
  }
  inode_ = st.st_ino;
  uid_ = st.st_uid;
  return static_cast<uint64_t>(st.st_size) >= sizeof(SegmentHeader);
}

Result<bool> SegmentReader::Load(uid_t owner) {
  Result<bool> large_enough = CheckFile(owner);
  if (!large_enough.ok() || !*large_enough) return large_enough;
  unsigned char h[sizeof(SegmentHeader)];
  if (!ReadAt(0, h, sizeof(h))) return false;
  if (PICK(uint32_t, SegmentHeader, ready, h) != 1) return false;

  if (PICK(uint64_t, SegmentHeader, magic, h) != kSegmentMagic)
    return Status::Error("not a segment");
  const uint32_t version = PICK(uint32_t, SegmentHeader, version, h);
  if (version != kSegmentVersion) {
    return Status::Error("layout " + std::to_string(version) + ", want " +
                         std::to_string(kSegmentVersion));
  }
  if (PICK(uint32_t, SegmentHeader, header_bytes, h) != sizeof(SegmentHeader)) {
    return Status::Error("header size differs");
  }
  const uint32_t threads = PICK(uint32_t, SegmentHeader, thread_count, h);
  const uint32_t ring_events = PICK(uint32_t, SegmentHeader, ring_events, h);
  if (threads == 0 || threads > kMaxThreadSlots) return Status::Error("thread slots out of range");
  if (!std::has_single_bit(ring_events) || ring_events > kMaxRingEvents) {
    return Status::Error("ring size out of range");
  }
  geometry_ = ComputeGeometry(threads, ring_events);
  if (PICK(uint64_t, SegmentHeader, names_offset, h) != geometry_.names ||
      PICK(uint64_t, SegmentHeader, comms_offset, h) != geometry_.comms ||
      PICK(uint64_t, SegmentHeader, threads_offset, h) != geometry_.threads ||
      PICK(uint64_t, SegmentHeader, rings_offset, h) != geometry_.rings ||
      PICK(uint64_t, SegmentHeader, total_bytes, h) != geometry_.total) {
    return Status::Error("geometry differs from the layout");
  }
  struct stat st;
  if (fstat(fd_, &st) != 0 || static_cast<uint64_t>(st.st_size) < geometry_.total) {
    return Status::Error("file is shorter than its header says");
  }

  SegmentIdentity& id = identity_;
  id.thread_count = threads;
  id.ring_events = ring_events;
  const uint32_t tick_source = PICK(uint32_t, SegmentHeader, tick_source, h);
  if (tick_source > static_cast<uint32_t>(TickSource::kTsc)) {
    return Status::Error("unknown tick source");
  }
  id.tick_source = static_cast<TickSource>(tick_source);
  id.anchor_ticks = PICK(uint64_t, SegmentHeader, anchor_ticks, h);
  id.anchor_monotonic_ns = PICK(uint64_t, SegmentHeader, anchor_monotonic_ns, h);
  id.anchor_realtime_ns = PICK(uint64_t, SegmentHeader, anchor_realtime_ns, h);
  id.source_id = PICK(uint64_t, SegmentHeader, source_id, h);
  id.pid = PICK(int32_t, SegmentHeader, pid, h);
  id.main_tid = PICK(int32_t, SegmentHeader, main_tid, h);
  id.process_start_clock_ticks = PICK(uint64_t, SegmentHeader, process_start_clock_ticks, h);
  id.pid_namespace = PICK(uint64_t, SegmentHeader, pid_namespace, h);
  id.rank = PICK(uint32_t, SegmentHeader, rank, h);
  id.world_size = PICK(uint32_t, SegmentHeader, world_size, h);
  id.local_rank = PICK(uint32_t, SegmentHeader, local_rank, h);
  id.attempt = PICK(uint32_t, SegmentHeader, attempt, h);
  id.job = PICK_TEXT(SegmentHeader, job, h);
  id.job_name = PICK_TEXT(SegmentHeader, job_name, h);
  id.node = PICK_TEXT(SegmentHeader, node, h);
  id.library_version = PICK_TEXT(SegmentHeader, library_version, h);
  if (id.source_id == 0) return Status::Error("no source id");
  if (id.pid <= 0) return Status::Error("no pid");
  if (id.job.empty()) return Status::Error("no job");
  if (id.world_size == 0 || id.rank >= id.world_size) {
    return Status::Error("rank " + std::to_string(id.rank) + " of " +
                         std::to_string(id.world_size));
  }
  names_.resize(kMaxNames);
  return true;
}

Result<SegmentFacts> SegmentReader::ReadFacts() const {
  unsigned char h[sizeof(SegmentHeader)];
  SegmentFacts facts;
  // Texts that were being written are taken as they are after a few tries: each is cleaned and
  // bounded, and a torn one costs a wrong letter, not a wrong finding.
  for (int i = 0; i < kVersionedReadTries; ++i) {
    if (!ReadAt(0, h, sizeof(h))) return Status::Error("file became shorter");
    if (PICK(uint32_t, SegmentHeader, facts_version, h) % 2 == 0 &&
        PICK(uint32_t, SegmentHeader, exception_version, h) % 2 == 0) {
      break;
    }
  }
  facts.python_version_hex = PICK(uint32_t, SegmentHeader, python_version_hex, h);
  facts.python_runtime_address = PICK(uint64_t, SegmentHeader, python_runtime_address, h);
  facts.python_main_thread_state = PICK(uint64_t, SegmentHeader, python_main_thread_state, h);
  facts.framework = PICK_TEXT(SegmentHeader, framework, h);
  for (size_t i = 0; i < static_cast<size_t>(Part::kCount); ++i) {
    facts.part_state[i] = Pick<uint32_t>(h, offsetof(SegmentHeader, part_state) + 4 * i);
  }
  for (size_t i = 0; i < static_cast<size_t>(DropReason::kCount); ++i) {
    facts.drops[i] = Pick<uint64_t>(h, offsetof(SegmentHeader, drops) + 8 * i);
  }
  facts.name_count = PICK(uint32_t, SegmentHeader, name_count, h);
  facts.steps = PICK(uint64_t, SegmentHeader, step, h);
  facts.step_ticks = PICK(uint64_t, SegmentHeader, step_ticks, h);
  facts.phase = PICK(uint32_t, SegmentHeader, phase, h);
  facts.exit_code = PICK(int32_t, SegmentHeader, exit_code, h);
  if (PICK(uint32_t, SegmentHeader, exception_version, h) != 0) {
    facts.exception_type = PICK_TEXT(SegmentHeader, exception_type, h);
    facts.exception_text = PICK_TEXT(SegmentHeader, exception_text, h);
  }
  facts.enabled = PICK(uint32_t, SegmentHeader, enabled, h) != 0;
  return facts;
}

bool SegmentReader::ReadOpenCall(uint64_t offset, const unsigned char* first_look, uint32_t tid,
                                 OpenCallCopy* out) const {
  unsigned char call[sizeof(OpenCall)], again[sizeof(OpenCall)];
  std::memcpy(call, first_look, sizeof(call));
  bool steady = false;
  for (int i = 0; i < kVersionedReadTries && !steady; ++i) {
    if (!ReadAt(offset, again, sizeof(again))) return false;
    steady = PICK(uint32_t, OpenCall, version, call) % 2 == 0 &&
             std::memcmp(call, again, sizeof(call)) == 0;
    std::memcpy(call, again, sizeof(call));
  }
  const uint8_t kind = PICK(uint8_t, OpenCall, kind, call);
  if (!steady || kind == 0 || kind >= kEventKindCount) return false;
  out->kind = static_cast<EventKind>(kind);
  out->operation = CheckedOperation(PICK(uint8_t, OpenCall, operation, call));
  out->data_type = CheckedDataType(PICK(uint8_t, OpenCall, data_type, call));
  out->flags = PICK(uint8_t, OpenCall, flags, call);
  out->start_ticks = PICK(uint64_t, OpenCall, start_ticks, call);
  out->comm = PICK(uint64_t, OpenCall, comm, call);
  out->sequence = PICK(uint64_t, OpenCall, sequence, call);
  out->bytes = PICK(uint64_t, OpenCall, bytes, call);
  out->peer = PICK(int32_t, OpenCall, peer, call);
  out->name_id = PICK(uint32_t, OpenCall, name_id, call);
  out->tid = tid;
  return true;
}

Result<std::vector<OpenCallCopy>> SegmentReader::ReadOpenCalls() const {
  std::vector<OpenCallCopy> calls;
  std::vector<unsigned char> slots(identity_.thread_count * sizeof(ThreadSlot));
  if (!ReadAt(geometry_.threads, slots.data(), slots.size())) {
    return Status::Error("file became shorter");
  }
  for (uint32_t t = 0; t < identity_.thread_count; ++t) {
    const unsigned char* slot = slots.data() + t * sizeof(ThreadSlot);
    const uint32_t tid = PICK(uint32_t, ThreadSlot, tid, slot);
    const uint32_t depth = PICK(uint32_t, ThreadSlot, depth, slot);
    if (tid == 0 || depth == 0) continue;
    std::vector<OpenCallCopy> of_thread(kMaxOpenCalls);
    uint32_t steady_calls = 0, calls_by_depth[kMaxOpenCalls];
    for (uint32_t d = 0; d < depth && d < kMaxOpenCalls; ++d) {
      const size_t in_slot = offsetof(ThreadSlot, open) + d * sizeof(OpenCall);
      if (ReadOpenCall(ThreadSlotOffset(t) + in_slot, slot + in_slot, tid,
                       &of_thread[steady_calls])) {
        calls_by_depth[steady_calls++] = d;
      }
    }
    // The thread may have left calls while we read: those at or above its depth now are gone.
    uint32_t depth_after = 0;
    if (!ReadAt(ThreadSlotOffset(t) + offsetof(ThreadSlot, depth), &depth_after, 4)) {
      return Status::Error("file became shorter");
    }
    for (uint32_t i = 0; i < steady_calls && calls_by_depth[i] < depth_after; ++i) {
      calls.push_back(of_thread[i]);
    }
  }
  return calls;
}

Result<std::vector<CommunicatorCopy>> SegmentReader::ReadCommunicators(bool with_recent) const {
  std::vector<CommunicatorCopy> comms;
  // All slots by one call: a call for each would cost more than the bytes.
  std::vector<unsigned char> slots(kMaxComms * sizeof(CommSlot));
  if (!ReadAt(geometry_.comms, slots.data(), slots.size())) {
    return Status::Error("file became shorter");
  }
  for (uint32_t c = 0; c < kMaxComms; ++c) {
    unsigned char* slot = slots.data() + c * sizeof(CommSlot);
    const uint64_t offset = geometry_.comms + c * sizeof(CommSlot);
    if (PICK(uint64_t, CommSlot, comm, slot) == 0) continue;
    bool steady = false;
    for (int i = 0; i < kVersionedReadTries && !steady; ++i) {
      uint32_t version_after = 0;
      if (i > 0 && !ReadAt(offset, slot, sizeof(CommSlot))) break;
      if (!ReadAt(offset + offsetof(CommSlot, version), &version_after, 4)) break;
      const uint32_t version = PICK(uint32_t, CommSlot, version, slot);
      steady = version % 2 == 0 && version == version_after;
    }
    if (!steady || PICK(uint64_t, CommSlot, comm, slot) == 0) continue;
    comms.push_back(PickCommunicator(slot, with_recent));
  }
  return comms;
}

const std::string& SegmentReader::Name(uint32_t id) {
  static const std::string none;
  if (id == 0 || id >= kMaxNames) return none;
  std::string& name = names_[id];
  if (name.empty()) {
    char text[kNameBytes];
    if (ReadAt(geometry_.names + id * sizeof(NameSlot), text, sizeof(text))) {
      name = CleanText(text, sizeof(text));
    }
  }
  return name;
}

bool SegmentReader::ReadAt(uint64_t offset, void* out, size_t bytes) const {
  return pread(fd_, out, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

uint64_t SegmentReader::ThreadSlotOffset(uint32_t thread) const {
  return geometry_.threads + uint64_t{thread} * sizeof(ThreadSlot);
}

uint64_t SegmentReader::EventOffset(uint32_t thread, uint64_t index) const {
  const uint64_t in_ring = index & (identity_.ring_events - 1);
  return geometry_.rings + (uint64_t{thread} * identity_.ring_events + in_ring) * sizeof(Event);
}

bool SegmentReader::WriteAt(uint64_t offset, const void* bytes, size_t count) {
  // A write past the end would grow a file that its owner cut; look first.
  struct stat st;
  if (fstat(fd_, &st) != 0 || static_cast<uint64_t>(st.st_size) < geometry_.total) return false;
  return pwrite(fd_, bytes, count, static_cast<off_t>(offset)) == static_cast<ssize_t>(count);
}

bool SegmentReader::WriteTail(uint32_t thread, uint64_t tail) {
  return WriteAt(ThreadSlotOffset(thread) + offsetof(ThreadSlot, tail), &tail, sizeof(tail));
}

bool SegmentReader::WriteEnabled(bool enabled) {
  const uint32_t value = enabled ? 1 : 0;
  return WriteAt(offsetof(SegmentHeader, enabled), &value, sizeof(value));
}

pid_t SegmentReader::LockHolder() const {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = 0;
  lock.l_len = 1;
  if (fcntl(fd_, F_GETLK, &lock) != 0) return -1;
  if (lock.l_type == F_UNLCK) return 0;
  return lock.l_pid > 0 ? lock.l_pid : -1;
}

}  // namespace flare::daemon
