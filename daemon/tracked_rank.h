// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "daemon/fold/step_folder.h"
#include "daemon/owner_probe.h"
#include "daemon/ring_reader.h"
#include "daemon/segment_reader.h"
#include "daemon/tick_clock.h"
#include "flare/v1/event.pb.h"

// One traced process of this node, from the day its segment is found to the day it is removed.
//
// Used by the daemon's loop only: Poll every few milliseconds, Look a few times a second, then
// BuildState when StateDue says so. Times given to it are CLOCK_MONOTONIC nanoseconds.
namespace flare::daemon {

class TrackedRank {
 public:
  TrackedRank(std::string file_name, std::unique_ptr<SegmentReader> segment,
              const OwnerProbe* owner_probe, std::string node);

  const std::string& file_name() const { return file_name_; }
  const SegmentReader& segment() const { return *segment_; }
  const SegmentIdentity& identity() const { return segment_->identity(); }
  const SegmentFacts& facts() const { return facts_; }
  const OwnerLife& owner() const { return owner_; }
  pid_t pid() const { return owner_.pid; }

  v1::RankHello Hello() const;
  // True once after facts that belong in the hello have changed.
  bool TakeHelloChange();

  // Drains and folds; appends finished steps. False when more events wait.
  bool Poll(std::vector<v1::RankStep>* steps);
  // The steps of the last Poll, if there were any, are safe once the uplink has settled `ticket`.
  void NoteHandover(uint64_t ticket);
  // Gives the events of all steps up to `settled` back to the process.
  void ReleaseSettled(uint64_t settled);
  // Looks whether the process lives and what its header says.
  void Look(uint64_t now_ns);
  // The program was replaced by another one that has a segment of its own.
  void Supersede() { superseded_ = true; }

  bool StateDue(uint64_t now_ns) const;
  v1::RankState BuildState(uint64_t now_ns);
  // The next state goes out at once, as after a reconnect.
  void ForceState() { state_forced_ = true; }

  // The owner is gone, all it left has been folded, and its last state has been built.
  bool settled() const { return ended_ns_ != 0 && final_fold_done_ && final_state_built_; }
  uint64_t ended_ns() const { return ended_ns_; }  // 0 while it lives
  v1::ProcessState::Life life() const;

  bool SetEnabled(bool enabled) { return segment_->WriteEnabled(enabled); }

  double ring_fill() const { return rings_.fill(); }
  uint64_t events_read() const { return rings_.events_read(); }
  uint64_t steps_folded() const { return folder_.steps(); }
  std::vector<std::pair<const char*, uint64_t>> Drops() const;

 private:
  // Steps on their way to the spool: their number there, and where the newest of them ended.
  struct Handover {
    uint64_t ticket;
    uint64_t end_ticks;
  };
  bool Stuck(uint64_t now_ns) const;
  // What a change of makes a state due at once.
  std::string StateKey(uint64_t now_ns) const;
  void FillProcess(bool detail, v1::ProcessState* out);
  void FillCalls(v1::RankState* out);
  void FillCommunicators(bool with_recent, v1::RankState* out);
  void AttachDrops(v1::RankStep* step);

  const std::string file_name_;
  const std::unique_ptr<SegmentReader> segment_;
  const OwnerProbe* const owner_probe_;
  const std::string node_;
  RingReader rings_;
  TickClock clock_;
  StepFolder folder_;
  std::vector<Event> events_;  // buffer of one poll
  std::deque<Handover> handovers_;
  bool folded_ = false;  // the last poll gave steps
  SegmentFacts facts_;
  OwnerLife owner_;
  bool readable_ = true;
  bool superseded_ = false;
  std::string hello_key_;
  std::vector<uint64_t> reported_drops_;
  uint64_t last_progress_ns_ = 0;
  uint64_t last_end_ticks_ = 0;
  uint64_t ended_ns_ = 0;
  bool final_fold_done_ = false;
  bool final_state_built_ = false;
  bool state_forced_ = true;
  std::string sent_key_;
  uint64_t sent_ns_ = 0;
};

}  // namespace flare::daemon
