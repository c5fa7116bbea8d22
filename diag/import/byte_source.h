// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "libflare/core/status.h"

// Bytes that come one after the other: of a file or of memory, packed or not.
namespace flare::import {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills at most `size` bytes; 0 at the end. After an error nothing more comes.
  virtual Result<size_t> Read(char* out, size_t size) = 0;
  // Bytes taken from the file itself so far: what `Read` has given, before unpacking.
  virtual uint64_t raw_bytes() const = 0;
  virtual bool unpacks() const { return false; }
};

Result<std::unique_ptr<ByteSource>> OpenFile(const std::string& path);
// `bytes` must outlive the source.
std::unique_ptr<ByteSource> ReadMemory(std::string_view bytes);

// Looks at the first bytes of `packed` and puts the unpacker in front that they ask for; the source
// itself when they ask for none. Files that are several packed streams one after another are read
// to the end.
Result<std::unique_ptr<ByteSource>> Unpack(std::unique_ptr<ByteSource> packed);

}  // namespace flare::import
