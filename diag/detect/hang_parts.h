// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "diag/detect/job_view.h"
#include "diag/detect/wait_graph.h"
#include "diag/model/finding.h"

// The questions of hang detection, in the order in which DetectHang asks them. Each returns
// verdicts or nothing; the first that answers ends the questioning.
namespace flare::diag {

// A process is stopped (run state T or t) while others run. All stopped is a suspended job.
std::vector<Verdict> DetectStopped(const JobView& view);

// Members of a communicator that wait or have ended made different calls (signatures.h), or one of
// them ran ahead in steps.
std::vector<Verdict> DetectDisagreement(const JobView& view);

// The same, seen in finished steps (step_counts.h) while the job still goes on.
std::vector<Verdict> DetectSilentDisagreement(const JobView& view);

// A process died or exited and the others need it, or ended with it.
std::vector<Verdict> DetectEnded(const JobView& view);

// Living ranks wait: for each other, for a rank that is busy elsewhere, or inside a call.
std::vector<Verdict> DetectWaiting(const JobView& view);

// What tells a skipped call from two calls in opposite order, when ranks wait for each other in
// different communicators. Nothing when it was not a skipped call, or cannot be told.
std::vector<Verdict> ExplainCycleBySkip(const JobView& view, const WaitGraph& graph,
                                        const std::vector<Rank>& cycle);

// Ranks other than `culprits` that wait in a call of a communicator of one of them: the victims of
// a process that is stopped or gone.
std::vector<Rank> WaitersWith(const JobView& view, const std::vector<Rank>& culprits);

// Fills in ranks, nodes and victims.
void SetRanks(const JobView& view, std::vector<Rank> culprits, std::vector<Rank> victims,
              Verdict* verdict);

// "; 3 ranks have waited for it in all-reduce #118 of group default_pg for 4.2 s", or empty. The call
// is that of the longest wait, unless `direct` is given.
std::string WaitersText(const JobView& view, const std::vector<Rank>& victims, bool one_culprit,
                        const OpenCall* direct = nullptr);

// " for 4.2 s", " for at least 4.2 s", or nothing.
std::string ForText(const RankView& rank);

// Where what is known of a rank's calls comes from: "segment" or "dump".
const char* SourceText(const RankView& rank);

// ", called from train_step (train.py:41)", or nothing.
std::string PlaceText(const OpenCall& call);

// Earliest begin of the waits of these ranks; `otherwise` when none waits.
uint64_t WaitBegin(const JobView& view, const std::vector<Rank>& waiters, uint64_t otherwise);

// One evidence line per waiting rank, at most four, with the length of its wait in seconds.
void AddWaitEvidence(const JobView& view, const std::vector<Rank>& waiters, Verdict* verdict);

}  // namespace flare::diag
