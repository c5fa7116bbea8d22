// SPDX-License-Identifier: Apache-2.0
#include "daemon/stacks/remote_memory.h"

#include <sys/uio.h>

namespace flare::daemon {

size_t RemoteMemory::ReadSome(uint64_t address, void* out, size_t bytes) const {
  if (address == 0 || bytes == 0 || address + bytes < address) return 0;
  iovec local{out, bytes};
  iovec remote{reinterpret_cast<void*>(address), bytes};
  const ssize_t got = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
  return got > 0 ? static_cast<size_t>(got) : 0;
}

bool RemoteMemory::Read(uint64_t address, void* out, size_t bytes) const {
  return ReadSome(address, out, bytes) == bytes;
}

}  // namespace flare::daemon
