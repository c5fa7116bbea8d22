// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "diag/import/fragment.h"

// Which files belong to one job.
namespace flare::import {

struct Group {
  std::vector<Fragment> fragments;
  std::string label;  // unique; empty when there is one group
  std::vector<std::string> notes;
};

// Files are set apart when they name different jobs or world sizes, when a rank comes twice with
// different contents (by folder, if that explains it), or when they lie far apart in time and no
// process is in both. Files that say nothing of the kind go to the only job there is, or to the one
// of their folder; otherwise they make a job of their own.
std::vector<Group> GroupFragments(std::vector<Fragment> fragments);

}  // namespace flare::import
