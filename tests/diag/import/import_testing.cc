// SPDX-License-Identifier: Apache-2.0
#include "tests/diag/import/import_testing.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace flare::import {

std::vector<TestFile> TraceFiles(const std::string& traces, const std::string& folder,
                                 const std::string& prefix) {
  std::vector<TestFile> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(traces + "/" + folder, error)) {
    const std::string name = entry.path().filename();
    if (!entry.is_regular_file() || !name.starts_with(prefix)) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    files.push_back({name, {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()}});
  }
  std::sort(files.begin(), files.end(),
            [](const TestFile& a, const TestFile& b) { return a.name < b.name; });
  return files;
}

}  // namespace flare::import
