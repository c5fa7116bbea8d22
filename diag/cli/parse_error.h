// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "diag/cli/command.h"

// What the command line says when it was not understood.
namespace flare::cli {

// Prints help or version when that was asked for (0); else one line that says what is wrong and
// what was perhaps meant, and returns kExitUsage.
int ExplainParseError(const CLI::App& root, const CommandLine& line, const CLI::ParseError& error);

// "run: no option --nmae; did you mean '--name'?"
std::string UnknownOptionMessage(const CLI::App& app, const std::string& word);

}  // namespace flare::cli
