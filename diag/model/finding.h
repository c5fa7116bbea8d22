// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libflare/core/ids.h"

// Plain values: what FLARE says about a job. The strings of class, cause, team and state are a
// contract with scripts and alerts; docs/findings.md lists and explains them.
namespace flare::diag {

enum class FindingState : uint8_t { kSuspected, kOpen, kResolved, kWithdrawn };

struct Evidence {
  std::string text;
  std::string metric;
  std::optional<double> value;
  std::string unit;
  std::optional<double> expected;
};

// What a detector concludes from one look at a job. Verdicts about the same trouble have the same
// key (class, cause, culprits), look after look; the finding tracker gives them a life.
struct Verdict {
  std::string finding_class;  // "hang", "error", "fail_slow", "regression"
  std::string cause;
  std::string team;  // "operations", "infrastructure", "algorithm"
  std::vector<Rank> ranks;    // culprits only
  std::vector<Rank> victims;  // ranks that wait for them
  std::vector<std::string> nodes;
  std::vector<std::string> links;
  bool conclusive = false;  // opens at once; otherwise only suspected until open_after
  uint64_t since_unix_ns = 0;       // when the trouble began
  uint64_t open_after_unix_ns = 0;  // when an inconclusive verdict becomes open; 0 = never
  double lost_share = 1;            // of the job's time that is lost while it lasts, 0 to 1
  double confidence = 0;            // 0 to 1
  std::string severity;             // "high", "medium", "low"
  std::string summary;              // one sentence: what, where, why
  std::string action;               // what to do next
  std::vector<Evidence> evidence;
};

struct Finding {
  std::string id;
  std::string job;
  FindingState state = FindingState::kSuspected;
  Verdict verdict;
  uint64_t first_seen_unix_ns = 0;
  uint64_t last_seen_unix_ns = 0;
  bool until_job_end = false;  // resolved because the job ended with it
  double gpu_hours_lost = 0;  // ranks of the job x time since the trouble began, in hours
};

const char* StateName(FindingState state);

}  // namespace flare::diag
