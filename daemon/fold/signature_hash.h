// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "libflare/core/event.h"

// The hash by which members of a communicator see that they made the same calls.
//
// FNV-1a, 64 bits, over these 22 bytes of each collective in order of sequence, integers
// little-endian: sequence (8), operation (1), data type (1), bytes (8; 0 when sizes may differ
// between ranks or were not read), root (4; -1 none).
namespace flare::daemon {

class SignatureHash {
 public:
  void Add(uint64_t sequence, Operation operation, DataType data_type, uint64_t bytes, int32_t root,
           uint8_t flags) {
    if ((flags & (kEventUnequalBytes | kEventBytesUnknown)) != 0) bytes = 0;
    Mix(sequence, 8);
    Mix(static_cast<uint8_t>(operation), 1);
    Mix(static_cast<uint8_t>(data_type), 1);
    Mix(bytes, 8);
    Mix(static_cast<uint32_t>(root), 4);
  }
  uint64_t value() const { return hash_; }

 private:
  void Mix(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      hash_ = (hash_ ^ (value >> (8 * i) & 0xff)) * 0x100000001b3ull;
    }
  }
  uint64_t hash_ = 0xcbf29ce484222325ull;
};

}  // namespace flare::daemon
