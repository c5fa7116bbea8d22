// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/hang.h"

#include <algorithm>

#include "diag/detect/frame_meaning.h"
#include "diag/detect/hang_parts.h"
#include "diag/detect/main_thread.h"
#include "diag/detect/words.h"

namespace flare::diag {

std::vector<Rank> WaitersWith(const JobView& view, const std::vector<Rank>& culprits) {
  std::vector<Rank> waiters;
  for (const auto& [rank, other] : view.ranks()) {
    if (std::find(culprits.begin(), culprits.end(), rank) != culprits.end()) continue;
    const bool shared =
        std::any_of(other.waits.begin(), other.waits.end(), [&](const OpenCall* call) {
          const Group* group = view.FindGroup(call->communicator);
          if (group == nullptr) return true;
          return std::any_of(group->members.begin(), group->members.end(), [&](const auto& member) {
            return std::find(culprits.begin(), culprits.end(), member.second.first) !=
                   culprits.end();
          });
        });
    if (shared) waiters.push_back(rank);
  }
  return waiters;
}

void SetRanks(const JobView& view, std::vector<Rank> culprits, std::vector<Rank> victims,
              Verdict* verdict) {
  std::sort(culprits.begin(), culprits.end());
  std::sort(victims.begin(), victims.end());
  for (Rank rank : culprits) {
    const RankView* found = view.Find(rank);
    if (found == nullptr || found->record->node.empty()) continue;
    const std::string& node = found->record->node;
    auto& nodes = verdict->nodes;
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  verdict->ranks = std::move(culprits);
  verdict->victims = std::move(victims);
}

std::string ForText(const RankView& rank) {
  const std::string waited = WaitedText(rank);
  return waited.empty() ? "" : " for " + waited;
}

const char* SourceText(const RankView& rank) { return rank.stands_still() ? "dump" : "segment"; }

std::string PlaceText(const OpenCall& call) {
  const StackFrame* place = PlaceOf(call.stack);
  return place == nullptr ? "" : ", called from " + FrameText(*place);
}

std::string WaitersText(const JobView& view, const std::vector<Rank>& victims, bool one_culprit,
                        const OpenCall* direct) {
  const RankView* longest = nullptr;
  size_t waiting = 0;
  for (Rank rank : victims) {
    const RankView* victim = view.Find(rank);
    if (victim == nullptr || victim->longest_wait == nullptr) continue;
    ++waiting;
    if (longest == nullptr || victim->wait_ns > longest->wait_ns) longest = victim;
  }
  if (longest == nullptr) return "";
  const std::string who = waiting == 1 ? RanksText({longest->rank}) : CountText(waiting, "rank");
  return "; " + who + (waiting == 1 ? " has" : " have") + " waited for " +
         (one_culprit ? "it" : "them") + " in " +
         WaitText(view, direct != nullptr ? *direct : *longest->longest_wait) +
         ForText(*longest);
}

uint64_t WaitBegin(const JobView& view, const std::vector<Rank>& waiters, uint64_t otherwise) {
  uint64_t begin = 0;
  for (Rank rank : waiters) {
    const RankView* waiter = view.Find(rank);
    if (waiter == nullptr || waiter->longest_wait == nullptr) continue;
    const uint64_t since = waiter->at_unix_ns() - waiter->wait_ns;
    if (begin == 0 || since < begin) begin = since;
  }
  return begin == 0 ? otherwise : begin;
}

void AddWaitEvidence(const JobView& view, const std::vector<Rank>& waiters, Verdict* verdict) {
  constexpr size_t kShown = 4;
  size_t shown = 0;
  for (Rank rank : waiters) {
    const RankView* waiter = view.Find(rank);
    if (waiter == nullptr || waiter->longest_wait == nullptr || shown++ >= kShown) continue;
    Evidence evidence;
    evidence.text = Capitalized(RankText(view.job(), rank)) + " waits in " +
                    WaitText(view, *waiter->longest_wait) + " (open call in its " +
                    SourceText(*waiter) + ")" + PlaceText(*waiter->longest_wait);
    evidence.metric = "wait";
    evidence.value = static_cast<double>(waiter->wait_ns) * 1e-9;
    evidence.unit = "s";
    if (view.slow_step_ns() != 0) {
      evidence.expected = static_cast<double>(view.slow_step_ns()) * 1e-9;
    }
    verdict->evidence.push_back(std::move(evidence));
  }
}

std::vector<Verdict> DetectHang(const Job& job, uint64_t now_unix_ns,
                                const HangSettings& settings) {
  const JobView view(job, now_unix_ns, settings);
  for (const auto question :
       {DetectStopped, DetectDisagreement, DetectEnded, DetectWaiting, DetectSilentDisagreement}) {
    std::vector<Verdict> verdicts = question(view);
    if (!verdicts.empty()) return verdicts;
  }
  return {};
}

}  // namespace flare::diag
