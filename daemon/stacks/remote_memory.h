// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

// Reads memory of another process, which keeps running and does not notice.
//
// What is read may change between two reads; whoever uses it checks. Needs the rights of a
// debugger (same user, or CAP_SYS_PTRACE). Safe from any thread.
namespace flare::daemon {

class RemoteMemory {
 public:
  explicit RemoteMemory(pid_t pid) : pid_(pid) {}

  // All `bytes`, or false.
  bool Read(uint64_t address, void* out, size_t bytes) const;
  // Up to `bytes`; returns how many, 0 when none.
  size_t ReadSome(uint64_t address, void* out, size_t bytes) const;

  template <typename T>
  std::optional<T> Value(uint64_t address) const {
    T value;
    if (!Read(address, &value, sizeof(value))) return std::nullopt;
    return value;
  }

 private:
  pid_t pid_;
};

}  // namespace flare::daemon
