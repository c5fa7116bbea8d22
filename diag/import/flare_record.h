// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "diag/import/fragment.h"

// FLARE's own records, as its traces carry them (diag/trace/trace_writer.h), back to values. Used
// by the importers of both trace formats. Records come from a file: each is checked like any other
// input, and one that cannot be read is counted.
namespace flare::import {

class RecordReader {
 public:
  explicit RecordReader(Fragment* fragment) : fragment_(fragment) {}

  // A fact of the whole trace; unknown ones are passed over.
  void TakeFact(std::string_view name, std::string_view value);
  // The argument kRankArgument: a v1::RankHello in JSON.
  void TakeRank(std::string_view json);
  // The argument kStepArgument: a v1::RankStep in JSON, of the rank whose hello has its source.
  void TakeStep(std::string_view json);

  bool marked() const { return marked_; }  // the mark of FLARE's traces has been seen
  // Puts everything into the fragment.
  void Finish();

 private:
  RankFragment* OfSource(uint64_t source);

  Fragment* const fragment_;
  std::map<uint64_t, RankFragment> ranks_;  // by source
  uint32_t world_size_ = 0;
  uint64_t broken_ = 0;
  bool marked_ = false;
};

}  // namespace flare::import
