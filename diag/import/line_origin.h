// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libflare/core/ids.h"

// Whose line it is, when the output of many processes lies in one file.
//
// Parallel shells and launchers put a prefix before each line:
//   "node7: text" (pdsh, clush, srun --label with the task number), "[1,3]<stdout>:text" (mpirun),
//   "[rank3]:text", "[default3]:text" (torchrun)
// or a heading before each block:
//   "-----" "node7" "-----" (dshbak), "node7 | CHANGED | rc=0 >>" (ansible),
//   "[1] 10:11:12 [SUCCESS] node7" (pssh)
namespace flare::import {

struct Origin {
  std::string node;  // empty: not told
  std::optional<Rank> rank;
};

struct PrefixedLine {
  std::string_view prefix;  // empty: none
  std::string_view text;
};

// By form alone: a line such as "wait: ..." has a prefix too. The caller knows better.
PrefixedLine SplitPrefix(std::string_view line);
Origin OriginOfPrefix(std::string_view prefix);

// Finds the headings of blocks.
class BlockHeading {
 public:
  // True when the line is part of a heading; then node() is set for the block that begins.
  bool Take(std::string_view line);
  const std::string& node() const { return node_; }

 private:
  bool after_rule_ = false;  // the line before was "-----"
  bool named_ = false;       // and the one in between a name
  std::string node_;
};

}  // namespace flare::import
