// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What the numbers of NVIDIA's driver errors (Xid) mean, after the Xid catalogue in NVIDIA's GPU
// deployment documentation ("Analyzing Xid Errors with the Xid Catalog"; older numbers after "Xid
// Errors"), in our own words.
namespace flare::diag {

enum class XidClass : uint8_t {
  kUnknown,  // not in the table
  kNoFault,  // goes with another error, or tells nothing wrong
  kProgram,  // the program did what it must not; the device is well
  kMemory,   // memory of the device
  kLink,     // NVLink; the message says whether it is fatal
  kLost,     // the device is gone
  kDevice,   // the device or its firmware does not go on without a reset
};

struct XidFact {
  int64_t number;
  XidClass xid_class;
  bool proof;  // alone enough to say that something is broken
  const char* meaning;
};

// A fact of class kUnknown for numbers that are not in the table.
const XidFact& XidFactOf(int64_t number);

}  // namespace flare::diag
