// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "flare/v1/query.pb.h"

// Reports for people: what is wrong, where, since when, what it costs, what to do and who does it,
// to be understood in ten seconds.
//
// Every string of a job passes Printable() first, so no output can steer the terminal. Escape
// sequences appear only with `color`. Text ends in a newline unless a comment says otherwise. Pure,
// any thread.
namespace flare::diag {

struct TextOptions {
  bool color = false;
  size_t columns = 80;  // at least 40 are used
};

// The whole report: the job, its findings (open, suspected, then past ones), its ranks.
std::string RenderReport(const v1::Report& report, const TextOptions& options);

// A table, one job a line, in the given order.
std::string RenderJobs(const std::vector<v1::JobSummary>& jobs, const TextOptions& options);

// A finding that has just opened: a short paragraph for the middle of a job's output.
std::string RenderOpened(const v1::Finding& finding, const TextOptions& options);

// Any other change of a finding (suspected, resolved, withdrawn) as one line.
std::string RenderChange(const v1::Finding& finding, const TextOptions& options);

// What `flare run` says when the command has ended: one line when all was well.
std::string RenderSummary(const v1::Report& report, const TextOptions& options);

// "4/4 ranks  step 128  0.42 s/step  healthy": one line without newline, at most `columns` wide.
std::string ProgressLine(const v1::Report& report, size_t columns);

}  // namespace flare::diag
