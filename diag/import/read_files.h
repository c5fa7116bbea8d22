// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "diag/import/fragment.h"
#include "diag/import/importer.h"
#include "diag/import/walk.h"

// Reads many files side by side, each by the importer that knows its kind.
namespace flare::import {

struct ReadSettings {
  std::string as;        // kind of all files; empty: told by content
  unsigned threads = 0;  // 0: one for each core, at most 8
  ReadWatch* watch = nullptr;
  std::span<const Importer> importers = Importers();
};

struct ReadFiles {
  std::vector<Fragment> fragments;  // in the order of the files
  // Named files that could not be used. A file found in a folder is only mentioned in `notes`.
  std::vector<std::string> errors;
  std::vector<std::string> notes;
};

// Blocks until all is read, or `watch->stop` is set: then what comes back is of no use.
ReadFiles ReadAllFiles(const Walk& walk, const ReadSettings& settings);

}  // namespace flare::import
