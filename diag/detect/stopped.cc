// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "diag/detect/causes.h"
#include "diag/detect/hang_parts.h"
#include "diag/detect/words.h"

namespace flare::diag {
namespace {

uint64_t StoppedSince(const RankView& rank) {
  if (rank.record->stopped_since_unix_ns != 0) return rank.record->stopped_since_unix_ns;
  return rank.at_unix_ns() - rank.idle_ns;  // stopped some time after this
}

}  // namespace

std::vector<Verdict> DetectStopped(const JobView& view) {
  if (view.job().ended) return {};
  std::vector<Rank> stopped;
  uint64_t since = ~uint64_t{0};
  bool traced = false;
  for (const auto& [rank, other] : view.ranks()) {
    if (other.standing != Standing::kStopped) continue;
    const uint64_t begin = StoppedSince(other);
    if (other.at_unix_ns() < begin + view.settings().stopped_ns) continue;
    stopped.push_back(rank);
    since = std::min(since, begin);
    traced = traced || other.record->state.process.run_state == 't';
  }
  if (stopped.empty()) return {};
  // A witness that runs, seen after the stop: otherwise the whole job may be suspended.
  const bool others_run =
      std::any_of(view.ranks().begin(), view.ranks().end(), [&](const auto& entry) {
        const RankView& other = entry.second;
        return other.standing == Standing::kRunning &&
               other.at_unix_ns() >= since + view.settings().stopped_ns;
      });
  if (!others_run) return {};

  Verdict verdict = MakeVerdict("hang", "process_stopped");
  verdict.conclusive = true;
  verdict.confidence = 0.99;
  verdict.since_unix_ns = since;
  const std::vector<Rank> waiters = WaitersWith(view, stopped);
  const bool one = stopped.size() == 1;
  const std::string who = one ? RankText(view.job(), stopped.front()) : RanksText(stopped);
  verdict.summary = Capitalized(who) + (one ? " is" : " are") + " stopped (" +
                    (traced ? "held by a debugger" : "SIGSTOP or job control") + ")" +
                    WaitersText(view, waiters, one) + ".";
  const int64_t pid = view.Find(stopped.front())->record->pid;
  verdict.action = traced ? "Detach the debugger, or end the job."
                          : "Find out who stopped the process; `kill -CONT " +
                                (pid > 0 ? std::to_string(pid) : std::string("PID")) +
                                "` on its node lets it go on.";
  for (Rank rank : stopped) {
    const RankView& other = *view.Find(rank);
    Evidence evidence;
    evidence.text = Capitalized(RankText(view.job(), rank)) + " is in run state " +
                    other.record->state.process.run_state + " (/proc/" +
                    std::to_string(other.record->pid) + "/stat)";
    evidence.metric = "stopped";
    evidence.value = static_cast<double>(other.at_unix_ns() - StoppedSince(other)) * 1e-9;
    evidence.unit = "s";
    evidence.expected = 0;
    verdict.evidence.push_back(std::move(evidence));
  }
  AddWaitEvidence(view, waiters, &verdict);
  SetRanks(view, stopped, waiters, &verdict);
  return {verdict};
}

}  // namespace flare::diag
