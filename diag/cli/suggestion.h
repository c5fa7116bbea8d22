// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

// "Did you mean": the known word nearest to a mistyped one.
namespace flare::cli {

// The candidate with the fewest edits (a swap of neighbours is one), when these are few for the
// length of `word`; empty otherwise. The first of equals.
std::string Nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace flare::cli
