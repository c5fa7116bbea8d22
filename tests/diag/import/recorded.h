// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

// Files recorded by other tools, for tests that check known truths about them.
namespace flare::import {

inline std::string Recorded(const std::string& name) { return FLARE_TRACES "/" + name; }

}  // namespace flare::import

// First line of a test that needs the collection.
#define SKIP_WITHOUT_RECORDED_FILES()                                                 \
  do {                                                                                \
    if (!std::filesystem::exists(FLARE_TRACES "/manifest.tsv")) {                     \
      GTEST_SKIP() << "no recorded files at " FLARE_TRACES " (cmake -DFLARE_TRACES)"; \
    }                                                                                 \
  } while (false)
