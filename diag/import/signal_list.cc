// SPDX-License-Identifier: Apache-2.0
#include "diag/import/signal_list.h"

#include <cmath>

#include "diag/import/text_scan.h"

namespace flare::import {

void SignalList::Add(diag::HostSignal signal) {
  constexpr size_t kTextBytes = 500;
  constexpr size_t kNameBytes = 200;
  if (signal.text.size() > kTextBytes) signal.text.resize(kTextBytes);
  if (signal.node.size() > kNameBytes) signal.node.resize(kNameBytes);
  if (signal.device.size() > kNameBytes) signal.device.resize(kNameBytes);
  if (signal.value && !std::isfinite(*signal.value)) signal.value.reset();
  Key key{signal.kind,
          signal.node,
          signal.device,
          signal.rank ? static_cast<int64_t>(signal.rank->value) : -1,
          signal.code.value_or(INT64_MIN),
          signal.value.value_or(-1e300)};
  const auto known = index_.find(key);
  if (known != index_.end()) {
    signals_[known->second].count += signal.count;
    return;
  }
  if (signals_.size() >= kMostSignals) {
    ++left_out_;
    return;
  }
  index_.emplace(std::move(key), signals_.size());
  signals_.push_back(std::move(signal));
}

void SignalList::MoveTo(Fragment* fragment) {
  for (diag::HostSignal& signal : signals_) fragment->signals.push_back(std::move(signal));
  signals_.clear();
  index_.clear();
  if (left_out_ > 0) {
    fragment->notes.push_back(Counted(left_out_, "statement") + " left out: more than " +
                              std::to_string(kMostSignals) + " different ones");
  }
}

}  // namespace flare::import
