// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "libflare/core/segment_layout.h"

// Which communicator a process group of gloo is.
//
// Its identity is a hash of the prefixes under which its members meet in the rendezvous store, and
// of its size: equal on all members, and no two groups of a job share it. The store is read through
// functions that PyTorch exports. Where they are missing, groups are told apart by the order in
// which this process made them, which holds for programs whose ranks all make the same groups.
namespace flare {

struct GlooGroup {
  uint64_t comm = 0;  // 0: not known
  CommSlot* slot = nullptr;
};

struct GroupIdentity {
  uint64_t comm;
  char name[kNameBytes];  // the prefixes, innermost first; cut at the front
};

// `store` is a c10d::Store*; `caller` any address in PyTorch's libraries.
GroupIdentity IdentifyGroup(const void* caller, void* store, uint32_t size);

// Remembers a group by the address of its object, in place of an earlier one at that address.
void AddGroup(const void* process_group, const GlooGroup& group);

// Lock-free. An empty group when the address is not known.
GlooGroup FindGroup(const void* process_group);

}  // namespace flare
