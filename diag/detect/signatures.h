// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "diag/model/job.h"

// Compares what the members of one communicator called, sequence number by sequence number.
namespace flare::diag {

// The calls of one member, by sequence number; gaps are calls that are not known.
struct MemberCalls {
  Rank rank;
  std::map<uint64_t, Signature> calls;
};

enum class Divergence : uint8_t {
  kSkipped,    // the odd rank's calls fit the others' when moved on: it left calls out
  kExtra,      // they fit when moved back: it made calls that the others did not
  kDifferent,  // same place, another operation, type, size or root
};

struct Disagreement {
  uint64_t sequence = 0;  // the first at which members differ
  std::vector<Rank> odd;  // the ranks at fault; all that took part when they cannot be told apart
  bool told_apart = true;
  Divergence divergence = Divergence::kDifferent;
  uint32_t shift = 0;        // calls left out, or made too many
  Signature odd_call;        // of the first odd rank at `sequence`
  Signature usual_call;      // of the others
  std::vector<Rank> others;  // that called usual_call
};

// True when two calls at the same sequence can belong to one collective. What is not known agrees
// with everything: unknown operation or type, sizes where unequal ones are allowed, sizes of a
// scatter (only the root passes the whole).
bool Agree(const Signature& a, const Signature& b);

// The call expected after the last `before` calls of `history`, by the most recent earlier place
// where the same (up to three) calls came in a row. Nothing without such a place.
std::optional<Signature> ExpectedNext(const std::vector<Signature>& history);

// The first disagreement, or nothing. The majority is right; without one, those whose call fits the
// pattern of the calls before are; otherwise nobody can be told apart.
std::optional<Disagreement> FindDisagreement(const std::vector<MemberCalls>& members);

}  // namespace flare::diag
