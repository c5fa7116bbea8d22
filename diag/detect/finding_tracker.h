// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "diag/model/finding.h"
#include "diag/model/job.h"

// Gives verdicts a life: one finding per trouble, however often it is looked at.
//
//   suspected --conclusive, or now >= open_after--> open --absent for a while, or job over-->
//   resolved suspected --absent for a while, or job over with status 0--> withdrawn
//
// A verdict belongs to a live finding, or to one that ended less than a minute ago, when class,
// cause and culprits agree; or else when both are about the same trouble (a hang whose culprits or
// cause are known better now): the finding is then rewritten, except that weaker evidence never
// replaces stronger. Absence counts only while the job is heard of: silence of the daemon ends no
// finding. Keeps the newest kKeptFindings; ended ones go first. Not thread-safe.
namespace flare::diag {

class FindingTracker {
 public:
  static constexpr size_t kKeptFindings = 1000;

  explicit FindingTracker(std::string job_id);

  // Takes the verdicts of one look. True when a finding changed in a way worth storing or sending:
  // a new one, a new state, another cause, culprit or victim, or newer numbers (at most each 5 s).
  bool Update(const Job& job, const std::vector<Verdict>& verdicts, uint64_t now_unix_ns);

  // The job is over (job.ended, with exit_status): open findings resolve; suspected ones are
  // withdrawn when the job ended well and otherwise stay suspected for good.
  bool EndJob(const Job& job, uint64_t now_unix_ns);

  // Oldest first. Valid until the next call that is not const.
  const std::vector<Finding>& findings() const { return findings_; }

  // Continues from stored findings; replaces what is there.
  void Restore(std::vector<Finding> findings);

 private:
  struct Life {
    uint64_t absent_since_unix_ns = 0;  // 0 = seen at the last look
    uint64_t lost_until_unix_ns = 0;    // gpu_hours_lost is counted up to here
    uint64_t told_unix_ns = 0;          // when its verdict was last called changed
    bool over = false;                  // of a job that ended: never revived
  };

  size_t Match(const Verdict& verdict, const std::vector<bool>& taken, bool exact,
               uint64_t now) const;
  bool Refresh(size_t index, const Job& job, const Verdict& verdict, uint64_t now);
  bool Absent(size_t index, uint64_t now);
  void Add(const Job& job, const Verdict& verdict, uint64_t now);
  void Trim();

  std::string job_id_;
  uint64_t next_number_ = 1;
  std::vector<Finding> findings_;
  std::vector<Life> lives_;  // of findings_, by index
};

}  // namespace flare::diag
