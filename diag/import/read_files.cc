// SPDX-License-Identifier: Apache-2.0
#include "diag/import/read_files.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace flare::import {
namespace {

// Less sure than this, an importer only offers to try: if it fails, the kind is unknown.
constexpr int kMerelyTries = 10;

constexpr unsigned kMostThreads = 8;  // each may hold a trace in memory
constexpr size_t kListedNames = 5;

struct Outcome {
  std::optional<Fragment> fragment;
  Status status;
  bool unknown_kind = false;
};

Outcome ReadOne(const std::string& path, const ReadSettings& settings) {
  Outcome outcome;
  const Result<std::unique_ptr<Input>> input = Input::Open(path, {}, settings.watch);
  if (!input.ok()) {
    outcome.status = input.status();
    return outcome;
  }
  const Result<const Importer*> importer = ChooseImporter(**input, settings.as, settings.importers);
  if (!importer.ok()) {
    outcome.status = importer.status();
    outcome.unknown_kind = true;
    return outcome;
  }
  Result<Fragment> fragment = ReadWith(**importer, input->get());
  if (fragment.ok()) {
    outcome.fragment = std::move(fragment).value();
  } else {
    outcome.status = fragment.status();
    outcome.unknown_kind =
        settings.as.empty() && (*importer)->recognise((*input)->head()) < kMerelyTries;
  }
  return outcome;
}

unsigned ThreadCount(const ReadSettings& settings, size_t files) {
  unsigned count = settings.threads;
  if (count == 0) count = std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads);
  return static_cast<unsigned>(std::min<size_t>(count, files));
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// One sentence for all of them: a folder of logs and models may hold thousands.
void NoteUnknown(const std::vector<std::string>& paths, std::vector<std::string>* notes) {
  if (paths.empty()) return;
  std::string note = paths.size() == 1
                         ? "a file of no known kind left out: "
                         : std::to_string(paths.size()) + " files of no known kind left out: ";
  for (size_t i = 0; i < paths.size() && i < kListedNames; ++i) {
    note += (i > 0 ? ", " : "") + BaseName(paths[i]);
  }
  notes->push_back(note + (paths.size() > kListedNames ? ", ..." : ""));
}

}  // namespace

ReadFiles ReadAllFiles(const Walk& walk, const ReadSettings& settings) {
  std::vector<Outcome> outcomes(walk.files.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < walk.files.size(); i = next++) {
      if (settings.watch != nullptr && settings.watch->stop) return;
      outcomes[i] = ReadOne(walk.files[i].path, settings);
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (unsigned t = 1; t < ThreadCount(settings, walk.files.size()); ++t) {
      helpers.emplace_back(work);
    }
    work();
  }
  ReadFiles read;
  read.errors = walk.errors;
  read.notes = walk.notes;
  std::vector<std::string> unknown;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    Outcome& outcome = outcomes[i];
    if (outcome.fragment) {
      read.fragments.push_back(std::move(*outcome.fragment));
    } else if (walk.files[i].named) {
      read.errors.push_back(outcome.status.message());
    } else if (outcome.unknown_kind && settings.as.empty()) {
      unknown.push_back(walk.files[i].path);
    } else {
      read.notes.push_back(outcome.status.message() + "; left out");
    }
  }
  NoteUnknown(unknown, &read.notes);
  return read;
}

}  // namespace flare::import
