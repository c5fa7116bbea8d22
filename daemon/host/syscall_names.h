// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

// Names of the system calls in which a stuck thread is likely to be found.
namespace flare::daemon {

enum class SyscallArgument { kNone, kDescriptor, kPath, kPathAfterDescriptor };

struct SyscallName {
  std::string name;  // "syscall_N" when we have no name for it
  SyscallArgument argument = SyscallArgument::kNone;
};

SyscallName NameSyscall(int64_t number);

}  // namespace flare::daemon
