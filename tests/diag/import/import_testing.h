// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "diag/detect/detector_list.h"
#include "diag/import/importer.h"
#include "diag/import/join.h"

// From files to verdicts in one line, for tests of importers.
namespace flare::import {

struct TestFile {
  std::string name;
  std::string bytes;
};

// As an import of the file would have it; a failed one fails the test and gives an empty fragment.
inline Fragment Import(const TestFile& file) {
  const std::unique_ptr<Input> input = Input::FromMemory(file.name, file.bytes);
  const Result<const Importer*> importer = ChooseImporter(*input, "");
  EXPECT_TRUE(importer.ok()) << file.name << ": " << importer.status().message();
  if (!importer.ok()) return Fragment();
  Result<Fragment> fragment = ReadWith(**importer, input.get());
  EXPECT_TRUE(fragment.ok()) << fragment.status().message();
  return fragment.ok() ? std::move(fragment).value() : Fragment();
}

// Why a file cannot be imported.
inline std::string ImportError(const TestFile& file) {
  const std::unique_ptr<Input> input = Input::FromMemory(file.name, file.bytes);
  const Result<const Importer*> importer = ChooseImporter(*input, "");
  if (!importer.ok()) return importer.status().message();
  return ReadWith(**importer, input.get()).status().message();
}

inline JoinedJob Join(const std::vector<TestFile>& files) {
  std::vector<Fragment> fragments;
  for (const TestFile& file : files) fragments.push_back(Import(file));
  std::vector<JoinedJob> jobs = JoinFragments(std::move(fragments));
  EXPECT_EQ(jobs.size(), 1u);
  return jobs.empty() ? JoinedJob() : std::move(jobs.front());
}

inline std::vector<diag::Verdict> VerdictsOf(const JoinedJob& joined) {
  return diag::RunDetectors(joined.job, joined.now_unix_ns);
}

// The only verdict there is.
inline diag::Verdict OnlyVerdict(const JoinedJob& joined) {
  const std::vector<diag::Verdict> verdicts = VerdictsOf(joined);
  EXPECT_EQ(verdicts.size(), 1u);
  for (const diag::Verdict& verdict : verdicts) {
    if (verdicts.size() > 1) ADD_FAILURE() << verdict.cause << ": " << verdict.summary;
  }
  return verdicts.empty() ? diag::Verdict() : verdicts.front();
}

// Whether a finding of this verdict would be open, at the moment of the files.
inline bool Opens(const diag::Verdict& verdict, const JoinedJob& joined) {
  return verdict.conclusive ||
         (verdict.open_after_unix_ns != 0 && verdict.open_after_unix_ns <= joined.now_unix_ns);
}

inline std::vector<uint32_t> Numbers(const std::vector<Rank>& ranks) {
  std::vector<uint32_t> numbers;
  for (Rank rank : ranks) numbers.push_back(rank.value);
  return numbers;
}

// The files of a folder of recorded traces whose names begin with `prefix`; the test skips where
// the collection is missing.
#define FLARE_TRACE_FILES(files, folder, prefix)                                           \
  std::vector<TestFile> files = ::flare::import::TraceFiles(FLARE_TRACES, folder, prefix); \
  if (files.empty()) GTEST_SKIP() << "no recorded files at " << FLARE_TRACES << "/" << folder

std::vector<TestFile> TraceFiles(const std::string& traces, const std::string& folder,
                                 const std::string& prefix);

}  // namespace flare::import
