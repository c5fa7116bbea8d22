// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

// Identities used across FLARE, as types so that a Rank cannot be passed where a StepId is meant.
//
// All are plain values, cheap to copy, without a null state unless a constant says so.
namespace flare {

template <typename Tag, typename Int>
struct StrongId {
  Int value = 0;
  constexpr StrongId() = default;
  constexpr explicit StrongId(Int v) : value(v) {}
  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;
};

// Position of a process in its job, 0 to world size - 1.
using Rank = StrongId<struct RankTag, uint32_t>;

// A communicator (process group), equal on all its members. 0 means unknown.
using CommId = StrongId<struct CommTag, uint64_t>;

// Number of a training step on one rank, counted from 0 by libflare.
using StepId = StrongId<struct StepTag, uint64_t>;

// One traced process, from wake to exit: changes with every restart of a rank. Never 0 once set.
using SourceId = StrongId<struct SourceTag, uint64_t>;

}  // namespace flare

template <typename Tag, typename Int>
struct std::hash<flare::StrongId<Tag, Int>> {
  size_t operator()(const flare::StrongId<Tag, Int>& id) const noexcept {
    return std::hash<Int>{}(id.value);
  }
};
