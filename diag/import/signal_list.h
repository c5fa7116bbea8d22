// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "diag/import/fragment.h"
#include "diag/model/signal.h"

// Statements of a log, equal ones told once.
//
// Equal are those of one kind, node, device, rank, code and value; the first one's time and text
// stay, and `count` grows. A log may say the same a million times.
namespace flare::import {

class SignalList {
 public:
  static constexpr size_t kMostSignals = 4096;  // distinct ones of one file

  // `signal.count` times. Cuts the text to its limit.
  void Add(diag::HostSignal signal);
  // Moves all to the fragment, in the order of their first appearance.
  void MoveTo(Fragment* fragment);
  bool empty() const { return signals_.empty(); }

 private:
  using Key = std::tuple<diag::SignalKind, std::string, std::string, int64_t, int64_t, double>;

  std::vector<diag::HostSignal> signals_;
  std::map<Key, size_t> index_;
  uint64_t left_out_ = 0;
};

}  // namespace flare::import
