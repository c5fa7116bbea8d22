// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "diag/detect/hang.h"
#include "diag/model/job.h"

// A job arranged for the questions of hang detection: who lives, who waits for how long, who
// belongs to which communicator. Refers to the job, which must outlive it.
namespace flare::diag {

enum class Standing : uint8_t {
  kSilent,  // no fresh state: nothing may be concluded from it
  kRunning,
  kStopped,  // run state T or t
  kExited,
  kDied,
};

struct RankView {
  Rank rank;
  const RankRecord* record = nullptr;
  Standing standing = Standing::kSilent;
  std::vector<const OpenCall*> waits;  // collectives, p2p and communicator creations that are open
  const OpenCall* longest_wait = nullptr;
  // Time since both the longest wait began and anything was completed, at the daemon's look. Of a
  // job that stands still (RankState::stands_still) the least that it can be.
  uint64_t wait_ns = 0;
  uint64_t idle_ns = 0;        // since anything was completed; 0 when unknown
  uint64_t ended_unix_ns = 0;  // exited or died; else 0
  // Open collectives that other members have finished although they needed this rank's part: it did
  // its part, and only its own end is outstanding. Oldest first; from dumps only.
  std::vector<const OpenCall*> left_behind;
  bool stands_still() const { return record->state.stands_still; }
  bool Waited(uint64_t at_least_ns) const {
    return longest_wait != nullptr && (stands_still() || wait_ns >= at_least_ns);
  }
  bool IsLeftBehind(const OpenCall& call) const;
  uint64_t at_unix_ns() const { return record->state.at_unix_ns; }
  bool alive() const { return standing == Standing::kRunning || standing == Standing::kStopped; }
  bool ended() const { return standing == Standing::kExited || standing == Standing::kDied; }
};

struct Group {
  CommId id;
  std::string name;   // for people, never empty
  uint32_t size = 0;  // as its members tell; 0 unknown
  // By position in the group. Members that never reported the communicator are missing.
  std::map<uint32_t, std::pair<Rank, const CommunicatorState*>> members;
  // Positions whose rank is not known: nothing may be concluded about them.
  size_t unknown_members() const { return size > members.size() ? size - members.size() : 0; }
};

class JobView {
 public:
  JobView(const Job& job, uint64_t now_unix_ns, const HangSettings& settings);

  const Job& job() const { return job_; }
  uint64_t now() const { return now_; }
  const HangSettings& settings() const { return settings_; }
  const std::map<Rank, RankView>& ranks() const { return ranks_; }
  const std::map<CommId, Group>& groups() const { return groups_; }
  const RankView* Find(Rank rank) const;
  // Null when no rank reported it.
  const Group* FindGroup(CommId id) const;

  size_t alive() const { return alive_; }  // ranks with fresh news of a living process
  // A wait this long, without progress, is suspicious in this job.
  uint64_t stall_ns() const { return stall_ns_; }
  uint64_t slow_step_ns() const { return slow_step_ns_; }
  // Living ranks that wait at least this long, in order of rank.
  std::vector<const RankView*> Waiting(uint64_t at_least_ns) const;

 private:
  void AddRank(const RankRecord& record);
  void AddGroups(const RankRecord& record);
  void FindLeftBehind(RankView* rank) const;
  uint64_t StallTime();

  const Job& job_;
  const uint64_t now_;
  const HangSettings& settings_;
  std::map<Rank, RankView> ranks_;
  std::map<CommId, Group> groups_;
  size_t alive_ = 0;
  uint64_t slow_step_ns_ = 0;
  uint64_t stall_ns_ = 0;
};

// "all-reduce #118 of group default_pg".
std::string WaitText(const JobView& view, const OpenCall& call);

// "4.2 s", or "at least 4.2 s" of a job that stands still; empty when nothing is known.
std::string WaitedText(const RankView& rank);

}  // namespace flare::diag
