// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "CLI/CLI.hpp"

// Completion scripts, written from the tree of commands and options so that they cannot fall
// behind.
namespace flare::cli {

std::string BashCompletion(const CLI::App& root);
std::string ZshCompletion(const CLI::App& root);
std::string FishCompletion(const CLI::App& root);

}  // namespace flare::cli
