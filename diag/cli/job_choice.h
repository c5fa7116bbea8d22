// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "diag/cli/report_source.h"

// All jobs that can be known about, each with the best source for it.
namespace flare::cli {

struct SourceOptions {
  std::string state_dir;
  std::string engine;  // of --engine or $FLARE_ENGINE; then nothing else is asked
};

struct KnownJob {
  v1::JobSummary summary;
  ReportSource* source = nullptr;  // owned by KnownJobs
};

struct KnownJobs {
  std::vector<std::unique_ptr<ReportSource>> sources;
  std::vector<KnownJob> jobs;           // newest first, each job once
  std::vector<std::string> complaints;  // sources that could not be read
  bool refused = false;                 // an engine wants credentials
};

// Asks, in this order: embedded engines of running `flare run`, the advertised engine, the
// database. What an engine says of a job hides what the database says. An error only for a named
// engine.
Result<KnownJobs> FindJobs(const SourceOptions& options);

// `wanted` is an id, else a name, else the beginning of one of either; empty is the newest job. The
// newest of several. An error lists what there is.
Result<KnownJob> ChooseJob(const KnownJobs& known, const std::string& wanted);

}  // namespace flare::cli
