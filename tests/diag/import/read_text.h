// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "diag/import/importer.h"

// Reads a file that a test writes down in full.
namespace flare::import {

// By the importer that recognises it, or that of kind `as`.
inline Result<Fragment> ReadText(std::string text, const std::string& as = "") {
  const std::unique_ptr<Input> input = Input::FromMemory("test", std::move(text));
  const Result<const Importer*> importer = ChooseImporter(*input, as);
  if (!importer.ok()) return importer.status();
  return ReadWith(**importer, input.get());
}

// Of a file that can be read; an empty one and a failed test otherwise.
inline Fragment MustRead(std::string text, const std::string& kind) {
  Result<Fragment> fragment = ReadText(std::move(text));
  EXPECT_TRUE(fragment.ok()) << fragment.status().message();
  if (!fragment.ok()) return {};
  EXPECT_EQ(fragment->kind, kind);
  return std::move(*fragment);
}

inline Fragment MustReadFile(const std::string& path, const std::string& kind) {
  Result<Fragment> fragment = ImportFile(path, "");
  EXPECT_TRUE(fragment.ok()) << fragment.status().message();
  if (!fragment.ok()) return {};
  EXPECT_EQ(fragment->kind, kind) << path;
  return std::move(*fragment);
}

inline const diag::ProcessState& Process(const Fragment& fragment, size_t index) {
  return fragment.ranks.at(index).record.state.process;
}

// "wait (threading.py:306)" for each frame, innermost first.
inline std::vector<std::string> Frames(const std::vector<diag::StackFrame>& stack) {
  std::vector<std::string> texts;
  for (const diag::StackFrame& frame : stack) {
    texts.push_back(frame.function + " (" + frame.file + ":" + std::to_string(frame.line) + ")");
  }
  return texts;
}

}  // namespace flare::import
