// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "diag/import/fragment.h"
#include "diag/import/input.h"
#include "libflare/core/status.h"

// The one table of formats. A new format is one file and one line in importer_list.cc.
//
// Files are other people's and may be broken or hostile: an importer checks all it reads, never
// crashes, holds memory bounded by what it keeps and not by the file, and says in Fragment::notes
// what it had to leave out. It fails only when nothing useful can be said.
namespace flare::import {

struct Importer {
  const char* kind;   // for --as and reports: "kineto", "flight-recorder"
  const char* title;  // for people: "PyTorch profiler trace (Kineto)"
  // How sure this is the kind, 0 (no) to 100 (a magic number), from the first plain bytes alone.
  int (*recognise)(std::string_view head);
  Status (*read)(Input* input, Fragment* fragment);
};

std::span<const Importer> Importers();

// The importer that is surest, or by name with `as`. An error says what the file looks like and
// which kinds there are.
Result<const Importer*> ChooseImporter(const Input& input, const std::string& as,
                                       std::span<const Importer> table = Importers());

// Reads, with `kind` and `path` of the fragment set and every value within limits (check.h).
Result<Fragment> ReadWith(const Importer& importer, Input* input);

// Opens, chooses and reads.
Result<Fragment> ImportFile(const std::string& path, const std::string& as);

}  // namespace flare::import
