// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "libflare/core/status.h"

// Batches on disk between being made and being acknowledged by the engine.
//
//   <dir>/daemon_id                 32 hex digits, made once
//   <dir>/acknowledged              the last acknowledged sequence, in decimal; may lag
//   <dir>/<first sequence>.spool    records: length u32, CRC-32C u32, sequence u64, payload
//
// The CRC covers length, sequence and payload. A record that is cut or damaged ends its file: what
// follows is removed and counted. Sequences count 1, 2, 3 ... across restarts and are never given
// twice, even when every file has been removed: the newest file's name keeps the next one.
// Append writes; Sync makes durable. When the limit is reached, or the disk is full, the oldest
// file goes, and its records are counted as lost. Holds a lock on the directory: one user at a
// time. Not thread-safe.
namespace flare::daemon {

class Spool {
 public:
  struct Options {
    uint64_t max_bytes = 1ull << 30;
    uint64_t file_bytes = 4u << 20;  // a new file is begun beyond this
  };
  struct Record {
    uint64_t sequence = 0;
    std::string payload;
  };

  static Result<std::unique_ptr<Spool>> Open(const std::string& directory, Options options);
  static Result<std::unique_ptr<Spool>> Open(const std::string& directory) {
    return Open(directory, Options{});
  }
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // The sequence that the next record will have.
  uint64_t next_sequence() const { return next_sequence_; }
  // Writes a record; returns its sequence.
  Result<uint64_t> Append(const std::string& payload);
  Status Sync();
  // This record and all before it need not be kept.
  void Acknowledge(uint64_t sequence);

  // The first record after `sequence` that is not acknowledged; nothing when there is none.
  Result<Record> ReadAfter(uint64_t sequence);
  bool HasAfter(uint64_t sequence) const;

  const std::string& daemon_id() const { return daemon_id_; }
  uint64_t acknowledged() const { return acknowledged_; }
  bool empty() const { return records_.empty(); }
  uint64_t bytes() const;
  // Payloads of records that had to go unacknowledged since the last call, for counting.
  std::vector<std::string> TakeLost();
  uint64_t damaged_bytes() const { return damaged_bytes_; }  // cut off at opening

 private:
  struct File {
    std::string path;
    uint64_t first_sequence = 0;
    uint64_t last_sequence = 0;  // first - 1 when empty
    uint64_t bytes = 0;
  };
  struct Place {
    uint64_t sequence = 0;
    uint64_t file = 0;  // number of the file: index in files_ + files_removed_
    uint64_t offset = 0;
    uint32_t length = 0;
  };

  Spool(std::string directory, Options options);
  Status Load();
  Status LoadIdentity();
  Status LoadFile(uint64_t number, File* file);
  Status BeginFile();
  Status WriteRecord(const std::string& payload);
  void RemoveOldestFile(bool lost);
  void RemoveAcknowledgedFiles();
  Result<std::string> ReadPlace(const Place& place) const;
  Status SyncDirectory();

  const std::string directory_;
  const Options options_;
  int directory_fd_ = -1;
  int lock_fd_ = -1;
  int write_fd_ = -1;
  std::string daemon_id_;
  std::deque<File> files_;
  uint64_t files_removed_ = 0;
  std::deque<Place> records_;  // not acknowledged, by sequence
  uint64_t next_sequence_ = 1;
  uint64_t acknowledged_ = 0;
  uint64_t damaged_bytes_ = 0;
  std::vector<std::string> lost_;
};

}  // namespace flare::daemon
