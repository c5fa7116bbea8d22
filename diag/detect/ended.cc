// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "diag/detect/causes.h"
#include "diag/detect/exceptions.h"
#include "diag/detect/hang_parts.h"
#include "diag/detect/words.h"

namespace flare::diag {
namespace {

constexpr uint64_t kSameMomentNs = 100'000'000;
// A launcher that is told to end ends all ranks within this time; it takes longer to notice a
// death.
constexpr uint64_t kCancelSpreadNs = 300'000'000;
// How long before a death another rank may have ended to be its reason (the launcher kills the
// rest).
constexpr uint64_t kLauncherReactsNs = 1'000'000'000;

struct Endings {
  std::vector<const RankView*> died;      // by a signal, without an exception before
  std::vector<const RankView*> left;      // exit status 0
  std::vector<const RankView*> raised;    // an error of their own
  std::vector<const RankView*> followed;  // lost a peer; may still be alive
  bool cancelled = false;
  size_t going_on = 0;  // alive and not about to end
};

Endings SortEndings(const JobView& view) {
  Endings endings;
  for (const auto& [rank, other] : view.ranks()) {
    const Raised raised = RaisedBy(other.record->state.process);
    if (raised == Raised::kCancelled) endings.cancelled = true;
    if (raised == Raised::kPeerLost) {
      endings.followed.push_back(&other);
    } else if (raised == Raised::kOwn && other.ended()) {
      endings.raised.push_back(&other);
    } else if (other.standing == Standing::kDied) {
      endings.died.push_back(&other);
    } else if (other.standing == Standing::kExited) {
      endings.left.push_back(&other);
    } else if (raised == Raised::kNothing && other.alive()) {
      ++endings.going_on;
    }
  }
  std::stable_sort(
      endings.died.begin(), endings.died.end(),
      [](const RankView* a, const RankView* b) { return a->ended_unix_ns < b->ended_unix_ns; });
  return endings;
}

bool Needs(const RankView& waiter, const RankView& gone) {
  for (const CommunicatorState& mine : waiter.record->state.communicators) {
    for (const CommunicatorState& theirs : gone.record->state.communicators) {
      if (mine.communicator == theirs.communicator && mine.launched > theirs.launched) return true;
    }
  }
  return false;
}

// Ranks that cannot go on without `gone`: they wait in a collective that it has not come to, or
// lost it in one. Those merely seen between two collectives do not count.
std::vector<Rank> NeedersOf(const JobView& view, const Endings& endings, const RankView& gone) {
  std::vector<Rank> needers;
  for (const RankView* waiter : view.Waiting(view.settings().conclusive_stall_ns)) {
    const bool needs =
        std::any_of(waiter->waits.begin(), waiter->waits.end(), [&](const OpenCall* call) {
          if (call->kind != EventKind::kCollective) return Needs(*waiter, gone);
          const std::vector<Rank> missing = MissingMembers(view, *call);
          return std::find(missing.begin(), missing.end(), gone.rank) != missing.end();
        });
    if (needs) needers.push_back(waiter->rank);
  }
  for (const RankView* follower : endings.followed) {
    if (Needs(*follower, gone)) needers.push_back(follower->rank);
  }
  std::sort(needers.begin(), needers.end());
  needers.erase(std::unique(needers.begin(), needers.end()), needers.end());
  return needers;
}

bool DiedAfterItsWork(const RankView& dead, const Endings& endings) {
  const bool idle =
      std::all_of(dead.record->state.communicators.begin(), dead.record->state.communicators.end(),
                  [](const auto& comm) { return comm.completed >= comm.launched; });
  return idle && dead.waits.empty() && endings.going_on == 0 && endings.followed.empty() &&
         endings.raised.empty() && !endings.left.empty();
}

void AddEndEvidence(const JobView& view, const RankView& rank, Verdict* verdict) {
  const ProcessState& process = rank.record->state.process;
  Evidence evidence;
  evidence.text = Capitalized(RankText(view.job(), rank.rank)) + ", process " +
                  std::to_string(rank.record->pid);
  if (rank.standing == Standing::kDied) {
    evidence.text += ", is gone without having reached exit() (released lock on its segment)";
  } else {
    evidence.text += ", left with exit status " + std::to_string(process.exit_code);
    evidence.metric = "exit_status";
    evidence.value = process.exit_code;
  }
  if (!process.exception_type.empty()) {
    evidence.text += " after " + process.exception_type + ": " + process.exception_text;
  }
  verdict->evidence.push_back(std::move(evidence));
}

std::vector<Verdict> Crashed(const JobView& view, const Endings& endings) {
  const uint64_t first = endings.died.front()->ended_unix_ns;
  const bool over = view.job().ended;
  if (!over && view.now() < first + view.settings().death_settle_ns) return {};
  // A rank that raised, and a launcher that then ended the others.
  for (const RankView* raised : endings.raised) {
    if (raised->ended_unix_ns <= first + kLauncherReactsNs) return {};
  }
  const uint64_t last = endings.died.back()->ended_unix_ns;
  if (endings.died.size() == view.ranks().size() && last - first <= kCancelSpreadNs) return {};
  std::vector<Rank> culprits;
  for (const RankView* dead : endings.died) {
    if (dead->ended_unix_ns > first + kSameMomentNs) break;
    if (!DiedAfterItsWork(*dead, endings)) culprits.push_back(dead->rank);
  }
  if (culprits.empty()) return {};
  const bool hangs = !over && endings.going_on > 0;

  Verdict verdict = MakeVerdict(hangs ? "hang" : "error", "process_crashed");
  verdict.conclusive = true;
  verdict.confidence = culprits.size() == 1 ? 0.97 : 0.7;
  verdict.since_unix_ns = first;
  std::vector<Rank> victims;
  for (const auto& [rank, other] : view.ranks()) {
    if (std::find(culprits.begin(), culprits.end(), rank) == culprits.end() &&
        (other.alive() || other.standing == Standing::kDied)) {
      victims.push_back(rank);
    }
  }
  for (const RankView* follower : endings.followed) victims.push_back(follower->rank);
  std::sort(victims.begin(), victims.end());
  victims.erase(std::unique(victims.begin(), victims.end()), victims.end());
  const bool one = culprits.size() == 1;
  const std::string who = one ? RankText(view.job(), culprits.front()) : RanksText(culprits);
  verdict.summary = Capitalized(who) + (one ? " was" : " were") + " killed or crashed";
  const uint64_t steps = view.Find(culprits.front())->record->state.steps;
  if (steps > 0) verdict.summary += " after " + CountText(steps, "step");
  verdict.summary += hangs ? WaitersText(view, WaitersWith(view, culprits), one)
                           : std::string(" and the job ended with it");
  verdict.summary += ".";
  verdict.action =
      "Look for the reason in the kernel log of its node (out of memory, Xid, segmentation fault) "
      "and in the rank's own output" +
      std::string(hangs ? "; end the job, it cannot go on." : ".");
  for (Rank rank : culprits) AddEndEvidence(view, *view.Find(rank), &verdict);
  for (size_t i = 0; i < endings.followed.size() && i < 2; ++i) {
    AddEndEvidence(view, *endings.followed[i], &verdict);
  }
  SetRanks(view, culprits, victims, &verdict);
  return {verdict};
}

Verdict LeftVerdict(const JobView& view, const Endings& endings, const RankView& gone,
                    const std::vector<Rank>& needers) {
  uint64_t most_steps = 0;
  for (Rank rank : needers) {
    most_steps = std::max(most_steps, view.Find(rank)->record->state.steps);
  }
  const ProcessState& process = gone.record->state.process;
  const uint64_t steps = gone.record->state.steps;
  const bool ran_out = process.exit_code == 0 && steps < most_steps;
  const bool hangs = !view.job().ended && endings.going_on > 0;
  Verdict verdict =
      MakeVerdict(hangs ? "hang" : "error", ran_out ? "collective_skipped" : "process_exited");
  verdict.conclusive = true;
  verdict.confidence = 0.95;
  verdict.since_unix_ns = WaitBegin(view, needers, gone.ended_unix_ns);
  verdict.summary = Capitalized(RankText(view.job(), gone.rank));
  if (process.exit_code != 0 || !process.exception_type.empty()) {
    verdict.summary += " ended with " + (process.exception_type.empty()
                                             ? "exit status " + std::to_string(process.exit_code)
                                             : process.exception_type);
  } else {
    verdict.summary += " finished with status 0";
  }
  verdict.summary += " after " + CountText(steps, "step");
  if (ran_out) {
    verdict.summary += ": its data ran out, the others have done " + std::to_string(most_steps);
  } else {
    verdict.summary += " while " + CountText(needers.size(), "rank") + " still " +
                       (needers.size() == 1 ? "needs" : "need") + " it";
  }
  verdict.summary += WaitersText(view, needers, true) + ".";
  verdict.action =
      process.exit_code == 0
          ? "Give every rank the same number of batches (drop_last, DistributedSampler or "
            "DDP's join()), and let no rank leave before the others."
          : "Mend the error of this rank; let the launcher end the job when a rank fails.";
  AddEndEvidence(view, gone, &verdict);
  AddWaitEvidence(view, needers, &verdict);
  SetRanks(view, {gone.rank}, needers, &verdict);
  return verdict;
}

}  // namespace

std::vector<Verdict> DetectEnded(const JobView& view) {
  const Endings endings = SortEndings(view);
  if (endings.cancelled) return {};
  if (!endings.died.empty()) return Crashed(view, endings);
  std::vector<Verdict> verdicts;
  const auto add = [&](const RankView* gone, uint64_t settle_ns) {
    if (!view.job().ended && view.now() < gone->ended_unix_ns + settle_ns) return;
    const std::vector<Rank> needers = NeedersOf(view, endings, *gone);
    if (!needers.empty()) verdicts.push_back(LeftVerdict(view, endings, *gone, needers));
  };
  // When a rank raises, everybody ends with it: nothing to add to the program's own message, unless
  // others are left behind for good.
  if (!endings.raised.empty()) {
    if (endings.going_on == 0) return {};
    for (const RankView* gone : endings.raised) add(gone, view.settings().raise_settle_ns);
    return verdicts;
  }
  for (const RankView* gone : endings.left) add(gone, view.settings().exit_settle_ns);
  return verdicts;
}

}  // namespace flare::diag
