// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

// CRC-32C (Castagnoli), by table. About 400 MB/s: far more than the spool ever writes.
namespace flare::daemon {

inline uint32_t Crc32c(const void* bytes, size_t count, uint32_t seed = 0) {
  static constexpr auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? c >> 1 ^ 0x82f63b78u : c >> 1;
      table[i] = c;
    }
    return table;
  }();
  uint32_t crc = ~seed;
  const auto* p = static_cast<const unsigned char*>(bytes);
  for (size_t i = 0; i < count; ++i) crc = crc >> 8 ^ kTable[(crc ^ p[i]) & 0xff];
  return ~crc;
}

}  // namespace flare::daemon
