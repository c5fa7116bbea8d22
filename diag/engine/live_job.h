// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "diag/detect/finding_tracker.h"
#include "diag/engine/daemon_link.h"
#include "diag/model/job.h"
#include "diag/store/store.h"

// A job in the engine's memory: what its daemons say joins here, detectors look at it, findings
// come out.
//
//   running <-> stalled      a hang is suspected or open
//      |  ^
//      |  +-- a word --- lost    none for kLostAfterNs
//      v
//    ended                   EndJob, or every rank exited or died a while ago
//
// Only the current attempt is kept: the first hello of a higher attempt drops the ranks of the one
// before and settles its findings. A rank whose daemon is silent is absent, not dead: what is known
// of it stays, and so do findings about it. Messages have passed message_check. Not thread-safe;
// all times come from the caller. `now` is the engine's clock.
namespace flare::diag {

inline constexpr uint64_t kSilentAfterNs = 10'000'000'000;
inline constexpr uint64_t kEndedAfterNs = 3'000'000'000;  // all ranks gone, world complete
inline constexpr uint64_t kIncompleteEndedAfterNs = 30'000'000'000;  // some ranks never seen
inline constexpr uint64_t kSummaryEveryNs = 5'000'000'000;  // how old stored summaries may be
inline constexpr size_t kProfiledSteps = 32;  // merging distributions costs: the newest steps only

class LiveJob {
 public:
  enum class HelloResult : uint8_t {
    kCurrent,   // a rank of the current attempt
    kOld,       // of an earlier attempt or process: its steps are stored, nothing else
    kOtherJob,  // the job is over and this rank began later: a new job with the same identity
  };

  LiveJob(JobKey key, std::string owner, const v1::RankHello& first, uint64_t now_unix_ns);
  // Continues from the store; ranks are absent until their daemons speak.
  LiveJob(JobMemory memory, std::string owner);

  HelloResult TakeHello(const v1::RankHello& hello, std::shared_ptr<const Daemon> daemon,
                        uint64_t now_unix_ns);
  // Steps and states of a source that is not the rank's current one are ignored.
  void TakeStep(SourceId source, Rank rank, RankStep step, uint64_t now_unix_ns);
  // True when the process has stopped, continued or ended: look soon.
  bool TakeState(SourceId source, Rank rank, RankState state, std::vector<PartStatus> parts,
                 uint64_t now_unix_ns);

  // Runs the detectors and notices the end.
  void Look(uint64_t now_unix_ns);
  // The command has ended. A second end only adds the exit status.
  void End(int32_t exit_status, uint64_t now_unix_ns);
  void SetHooksEnabled(bool enabled);

  v1::JobSummary Summary(uint64_t now_unix_ns) const;
  v1::Report Report(uint64_t now_unix_ns) const;
  // Adds what the store does not have yet. Summaries follow at most every kSummaryEveryNs.
  void CollectWrites(uint64_t now_unix_ns, StoreWrites* writes);

  JobKey key() const { return key_; }
  const Job& job() const { return job_; }
  const std::vector<Finding>& findings() const { return tracker_.findings(); }
  uint64_t ended_unix_ns() const { return ended_unix_ns_; }
  bool hooks_enabled() const { return hooks_enabled_; }
  // Grows with every change that a report shows.
  uint64_t revision() const { return revision_; }

 private:
  struct Persisted {
    FindingState state;
    uint64_t last_seen_unix_ns;
    bool operator==(const Persisted&) const = default;
  };

  bool AllGone() const;
  bool IsNextJob(const v1::RankHello& hello) const;
  void StartAttempt(const v1::RankHello& hello, uint64_t now_unix_ns);
  bool Silent(Rank rank, uint64_t now_unix_ns) const;
  void HoldFindingsOfAbsentRanks(uint64_t now_unix_ns, std::vector<Verdict>* verdicts) const;
  void Diagnose(uint64_t now_unix_ns);
  void SettleFindings(uint64_t now_unix_ns);
  std::string StateInWords(uint64_t now_unix_ns) const;
  void CollectFindings(StoreWrites* writes);
  void RefreshProfiles();

  const JobKey key_;
  const std::string owner_;
  Job job_;
  FindingTracker tracker_;
  std::map<Rank, std::shared_ptr<const Daemon>> daemons_;
  std::map<Rank, v1::RankHello> hellos_;
  uint64_t ended_unix_ns_ = 0;
  uint64_t all_gone_since_unix_ns_ = 0;
  bool hooks_enabled_ = true;
  uint64_t revision_ = 1;

  bool job_unstored_ = true;
  std::set<Rank> ranks_unstored_;
  std::set<Rank> ranks_changed_;              // since their summary was last collected
  std::map<Rank, v1::RankProfile> profiles_;  // as old as the stored summaries
  bool findings_changed_ = false;
  uint64_t summaries_at_unix_ns_ = 0;
  uint64_t summaries_revision_ = 0;
  std::map<std::string, Persisted> persisted_;
};

}  // namespace flare::diag
