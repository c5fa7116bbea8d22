// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "diag/import/signal_list.h"

// What NVIDIA's DCGM found wrong, from any of its outputs, as a statement of the kind it is.
namespace flare::import {

struct DcgmItem {
  std::string gpu;      // "2"; empty: not told
  std::string test;     // "PCIe", "NVLink system", "memory"
  std::string words;    // its explanation; may be empty
  bool failed = false;  // else a warning
  std::string source;
};

void AddDcgmItem(const DcgmItem& item, SignalList* signals);

// "Fail", "Failure", "FAIL - GPU: 2".
bool SaysFail(std::string_view status);
bool SaysWarn(std::string_view status);

}  // namespace flare::import
