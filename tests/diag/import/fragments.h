// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "diag/import/fragment.h"

// Small fragments for tests of joining. Times are seconds after kStart.
namespace flare::import {

inline constexpr uint64_t kSecond = 1'000'000'000;
inline constexpr uint64_t kStart = 1'700'000'000 * kSecond;
inline uint64_t At(double seconds) {
  return kStart + static_cast<uint64_t>(static_cast<int64_t>(seconds * 1e9));
}

inline Fragment File(const std::string& path, std::optional<uint32_t> rank,
                     const std::string& kind = "trace") {
  Fragment fragment;
  fragment.kind = kind;
  fragment.path = path;
  RankFragment one;
  if (rank) one.rank = Rank(*rank);
  fragment.ranks.push_back(one);
  return fragment;
}

// Steps of one second each.
inline void AddSteps(Fragment* fragment, uint64_t first, uint64_t count, double at = 0) {
  for (uint64_t i = 0; i < count; ++i) {
    diag::RankStep step;
    step.step = StepId(first + i);
    step.start_unix_ns = At(at + static_cast<double>(i));
    step.duration_ns = kSecond;
    step.device.emplace().kernels = 1;
    KeepStep(std::move(step), &fragment->ranks[0]);
  }
}

inline Fragment Trace(const std::string& path, std::optional<uint32_t> rank, double at = 0) {
  Fragment fragment = File(path, rank);
  AddSteps(&fragment, 3, 2, at);
  return fragment;
}

// A dump of one open call that began `waits` seconds before.
inline Fragment Dump(const std::string& path, std::optional<uint32_t> rank, double at,
                     double waits) {
  Fragment fragment = File(path, rank, "dump");
  diag::RankState& state = fragment.ranks[0].record.state;
  state.at_unix_ns = At(at);
  state.last_progress_unix_ns = At(at - waits);
  state.process.life = diag::Life::kRunning;
  diag::OpenCall call;
  call.kind = EventKind::kCollective;
  call.since_unix_ns = At(at - waits);
  state.open_calls.push_back(call);
  return fragment;
}

inline Fragment Log(const std::string& path, double at) {
  Fragment fragment;
  fragment.kind = "log";
  fragment.path = path;
  diag::HostSignal signal;
  signal.kind = diag::SignalKind::kXid;
  signal.at_unix_ns = At(at);
  fragment.signals.push_back(signal);
  return fragment;
}

}  // namespace flare::import
