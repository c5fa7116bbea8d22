// SPDX-License-Identifier: Apache-2.0
#include "diag/import/kernel_table.h"

#include <algorithm>

namespace flare::import {

uint32_t KernelTable::StreamIndex(uint32_t device, uint64_t stream) {
  const std::pair<uint32_t, uint64_t> key{device, stream};
  if (key == last_stream_ && !streams_.empty()) return last_index_;
  const auto known = streams_.find(key);
  if (known != streams_.end()) {
    last_index_ = known->second;
  } else if (streams_.size() < KernelRow::kMaxStreams) {
    last_index_ = static_cast<uint32_t>(streams_.size());
    streams_.emplace(key, last_index_);
  } else {
    last_index_ = KernelRow::kMaxStreams - 1;
  }
  last_stream_ = key;
  return last_index_;
}

void KernelTable::Add(KernelRow row, uint32_t device, uint64_t stream) {
  row.stream = StreamIndex(device, stream);
  rows_.push_back(row);
}

bool KernelTable::AddLaunch(uint64_t correlation, int64_t begin_ns, bool many, size_t limit) {
  any_launch_ = true;
  if (launches_.size() >= match_at_) {
    Match();
    // What stays are launches whose kernels come later, or never: look again when it has doubled.
    match_at_ = std::max(size_t{1} << 20, 2 * launches_.size());
  }
  if (launches_.size() >= limit) return false;
  launches_.push_back({correlation, begin_ns, many});
  return true;
}

void KernelTable::SortLaunches() {
  const auto before = [](const Launch& a, const Launch& b) {
    return a.correlation != b.correlation ? a.correlation < b.correlation : a.begin_ns < b.begin_ns;
  };
  if (!std::is_sorted(launches_.begin(), launches_.end(), before)) {
    std::sort(launches_.begin(), launches_.end(), before);
  }
}

void KernelTable::Match() {
  if (launches_.empty()) return;
  SortLaunches();
  const auto before = [](const KernelRow& a, const KernelRow& b) {
    if (a.launched != b.launched) return a.launched < b.launched;
    return static_cast<uint64_t>(a.launch) < static_cast<uint64_t>(b.launch);
  };
  if (!std::is_sorted(rows_.begin(), rows_.end(), before)) {
    std::sort(rows_.begin(), rows_.end(), before);
  }
  auto launch = launches_.begin();
  auto kept = launches_.begin();
  bool used = false;
  // Of two launches of one correlation (runtime and driver call of the same launch) the first
  // counts.
  const auto next = [&] {
    if (!used || launch->many) *kept++ = *launch;
    used = false;
    ++launch;
  };
  for (KernelRow& row : rows_) {
    if (row.launched) break;
    const auto correlation = static_cast<uint64_t>(row.launch);
    if (correlation == 0) continue;
    while (launch != launches_.end() && launch->correlation < correlation) next();
    if (launch == launches_.end()) break;
    if (launch->correlation != correlation) continue;
    row.launch = launch->begin_ns;
    row.launched = 1;
    used = true;
  }
  while (launch != launches_.end()) next();
  launches_.erase(kept, launches_.end());
}

void KernelTable::SortByBegin() {
  const auto before = [](const KernelRow& a, const KernelRow& b) {
    return a.begin_ns < b.begin_ns;
  };
  if (!std::is_sorted(rows_.begin(), rows_.end(), before)) {
    std::sort(rows_.begin(), rows_.end(), before);
  }
}

std::map<uint32_t, size_t> KernelTable::MatchesIn(const KernelTable& host) const {
  std::vector<uint64_t> known;
  known.reserve(host.launches_.size());
  for (const Launch& launch : host.launches_) known.push_back(launch.correlation);
  std::sort(known.begin(), known.end());
  std::vector<uint32_t> device_of(KernelRow::kMaxStreams, 0);
  for (const auto& [key, index] : streams_) device_of[index] = key.first;
  std::map<uint32_t, size_t> matches;
  for (const KernelRow& row : rows_) {
    const bool found =
        row.launched ? &host == this
                     : row.launch != 0 && std::binary_search(known.begin(), known.end(),
                                                             static_cast<uint64_t>(row.launch));
    matches[device_of[row.stream]] += found;
  }
  return matches;
}

}  // namespace flare::import
