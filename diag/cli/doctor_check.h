// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "diag/cli/job_choice.h"

// The checks of `flare doctor`: each looks at one thing that decides whether a process is woken.
namespace flare::cli {

enum class CheckLevel { kOk, kNote, kWarning, kProblem };

struct Check {
  std::string name;  // stable, for scripts
  CheckLevel level = CheckLevel::kOk;
  std::string text;    // what was found, one sentence
  std::string remedy;  // what to do, empty when nothing
};

const char* CheckLevelName(CheckLevel level);

// This machine, this user and this environment.
std::vector<Check> CheckMachine(const SourceOptions& sources);

// The daemon of this node and the engine: whether they answer, and whether they are of our release.
std::vector<Check> CheckServices(const SourceOptions& sources, const std::string& segment_dir);

// Why one process is traced or not. What cannot be seen is a check of its own.
std::vector<Check> CheckProcess(int pid);

}  // namespace flare::cli
