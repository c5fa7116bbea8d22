// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "libflare/core/status.h"

// One file of somebody else, as a stream of plain bytes: gzip, zstd and xz are recognised by their
// first bytes, never by name, and unpacked on the way. Memory is bounded by a few chunks, whatever
// the size of the file. One thread per Input.
namespace flare::import {

struct InputLimits {
  // A file that unpacks to more is refused: a bomb, or nothing a report could be made of.
  uint64_t max_bytes = uint64_t{1} << 38;
  // Above 64 MiB unpacked, at most this many bytes for each packed one. Traces reach 30 to 60.
  uint64_t max_ratio = 400;
};

// Shared by all files of one import, by any thread.
struct ReadWatch {
  std::atomic<uint64_t> raw_bytes{0};  // read so far, before unpacking
  std::atomic<bool> stop{false};       // set from outside: Next() fails soon
};

class ByteSource;  // packed or plain bytes, forwards only

class Input {
 public:
  static constexpr size_t kHeadBytes = 64 << 10;
  static constexpr size_t kChunkBytes = 256 << 10;

  // `watch`, if any, must outlive the Input.
  static Result<std::unique_ptr<Input>> Open(const std::string& path,
                                             const InputLimits& limits = {},
                                             ReadWatch* watch = nullptr);
  // `name` stands for the path in messages.
  static std::unique_ptr<Input> FromMemory(std::string name, std::string bytes,
                                           const InputLimits& limits = {});
  ~Input();

  const std::string& name() const { return name_; }
  // The first kHeadBytes of plain bytes, fewer when the file is shorter. What is wrong with a
  // packed file beyond them shows in Next().
  std::string_view head() const { return head_; }

  // The next piece of plain bytes, from the beginning (head() included); empty at the end. Valid
  // until the next call. A file cut off in the middle of its packing is an error here, after all
  // bytes that could be had.
  Result<std::string_view> Next();

  // Next() begins again, for formats that must be read twice.
  Status Restart();

  // Everything from the beginning, for formats that must lie in memory; an error above `max_bytes`.
  Result<std::string> ReadAll(size_t max_bytes);

  // Path of a plain file with these bytes, for readers that open files themselves (SQLite): the
  // file itself, or an unpacked copy in $TMPDIR that lives as long as the Input.
  Result<std::string> PlainPath();

 private:
  Input(std::string name, std::string path, const InputLimits& limits, ReadWatch* watch);
  Status ReadHead();
  Status CheckLimits(size_t more);
  Status CopyTo(int fd);
  void CountRaw();

  const std::string name_;
  const std::string path_;  // empty: from memory
  const InputLimits limits_;
  ReadWatch* const watch_;
  std::string memory_;
  std::unique_ptr<ByteSource> source_;
  std::string head_;
  std::string chunk_;
  std::string copy_path_;
  bool head_given_ = false;
  Status head_error_;
  uint64_t plain_bytes_ = 0;  // given out so far
  uint64_t counted_raw_ = 0;  // in watch_; a second reading counts no second time
};

}  // namespace flare::import
