// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diag/import/fragment.h"
#include "diag/model/job.h"

// What many files say, joined to jobs.
//
// Files belong to one job when nothing speaks against it: their identities, world sizes and times
// agree, and no rank comes twice with different contents. Files that say no such thing (a kernel
// log, a dump of stacks) go to the job of the others when there is only one. Whatever had to be
// guessed, and every file that was set apart, is said in the notes. Pure, any thread.
//
//   fragments ──group──► one job each ──number──► ranks ──merge──► records ──clocks──► diag::Job
namespace flare::import {

struct JoinedJob {
  // id and name are the caller's; everything else is set. `ended` stays false: the files show the
  // job as it was at `now_unix_ns`, and detectors judge that moment.
  diag::Job job;
  std::string label;  // tells the jobs of one import apart: an identity, a folder; empty when alone
  // The last moment the files know of, for the detectors.
  uint64_t now_unix_ns = 0;
  // False: the times of the job count from an unknown origin and must not be shown.
  bool absolute_time = true;
  std::vector<std::string> paths;
  std::vector<std::string> notes;
};

std::vector<JoinedJob> JoinFragments(std::vector<Fragment> fragments);

}  // namespace flare::import
