// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "diag/detect/causes.h"
#include "diag/detect/exceptions.h"
#include "diag/detect/hang_parts.h"
#include "diag/detect/signatures.h"
#include "diag/detect/step_counts.h"
#include "diag/detect/words.h"

namespace flare::diag {
namespace {

constexpr uint64_t kReportsArriveNs =
    500'000'000;  // of the other members after the first has ended
constexpr size_t kStepsToTrustNumbers = 3;

struct Trouble {
  bool found = false;
  bool ended = false;  // a member died or raised: the job ends by it
  uint64_t since_unix_ns = 0;
  std::vector<Rank> waiting;
};

bool EndedBadly(const RankView& rank) {
  return rank.standing == Standing::kDied ||
         RaisedBy(rank.record->state.process) != Raised::kNothing;
}

Trouble TroubleIn(const JobView& view, const Group& group) {
  Trouble trouble;
  for (const auto& [position, member] : group.members) {
    const RankView& rank = *view.Find(member.first);
    const bool waits_here =
        std::any_of(rank.waits.begin(), rank.waits.end(),
                    [&](const OpenCall* call) { return call->communicator == group.id; });
    uint64_t since = 0;
    if (EndedBadly(rank)) {
      since = rank.ended() ? rank.ended_unix_ns : rank.at_unix_ns();
      trouble.ended = true;
    } else if (waits_here && rank.standing == Standing::kRunning &&
               rank.Waited(view.settings().conclusive_stall_ns)) {
      since = rank.at_unix_ns() - rank.wait_ns;
      trouble.waiting.push_back(rank.rank);
    } else {
      continue;
    }
    trouble.since_unix_ns = trouble.found ? std::min(trouble.since_unix_ns, since) : since;
    trouble.found = true;
  }
  std::sort(trouble.waiting.begin(), trouble.waiting.end());
  if (trouble.ended && !view.job().ended && view.now() < trouble.since_unix_ns + kReportsArriveNs) {
    trouble.found = false;
  }
  return trouble;
}

std::string DifferenceText(const Signature& odd, const Signature& usual, size_t others) {
  const std::string others_text =
      "the other " + (others == 1 ? std::string("rank") : CountText(others, "rank"));
  const std::string verb = others == 1 ? " calls " : " call ";
  if (odd.operation != usual.operation) {
    return others_text + verb +
           CollectiveText(usual.operation, usual.data_type, usual.bytes, usual.sequence);
  }
  if (odd.data_type != usual.data_type) {
    return others_text + (others == 1 ? " passes " : " pass ") + DataTypeText(usual.data_type);
  }
  if (odd.peer != usual.peer) {
    return others_text + (others == 1 ? " names " : " name ") + "root " +
           std::to_string(usual.peer) + ", not " + std::to_string(odd.peer);
  }
  return others_text + (others == 1 ? " passes " : " pass ") + BytesText(usual.bytes);
}

std::string StepText(const JobView& view, Rank rank) {
  const uint64_t steps = view.Find(rank)->record->state.steps;
  return steps == 0 ? "" : " in step " + std::to_string(steps);
}

void Describe(const JobView& view, const Group& group, const Disagreement& found,
              Verdict* verdict) {
  const std::string who =
      found.odd.size() == 1 ? RankText(view.job(), found.odd.front()) : RanksText(found.odd);
  const Signature& odd = found.odd_call;
  const Signature& usual = found.usual_call;
  const std::string odd_text =
      CollectiveText(odd.operation, odd.data_type, odd.bytes, found.sequence);
  const std::string usual_text =
      CollectiveText(usual.operation, usual.data_type, usual.bytes, found.sequence);
  const std::string of_group = " of group " + group.name;
  const std::string where = StepText(view, found.odd.front());
  if (!found.told_apart) {
    verdict->summary = Capitalized(who) + " disagree about call #" +
                       std::to_string(found.sequence) + of_group + where + ": " + odd_text +
                       " against " + usual_text + ".";
    verdict->action = "Compare what these ranks do at this call; one of them took another path.";
  } else if (found.divergence == Divergence::kSkipped) {
    verdict->summary =
        Capitalized(who) + " skipped " +
        (found.shift == 1 ? usual_text : CountText(found.shift, "call") + " from " + usual_text) +
        of_group + where + " and went on to " + OperationText(odd.operation) + "; " +
        CountText(found.others.size(), "other rank") + " made it.";
    verdict->action =
        "Look in the program for a condition around this call that differs between ranks "
        "(rank checks, skipped batches, NaN handling, no_sync).";
  } else if (found.divergence == Divergence::kExtra) {
    verdict->summary = Capitalized(who) + " made an extra call, " + odd_text + of_group + where +
                       ", that " + CountText(found.others.size(), "other rank") + " did not make.";
    verdict->action =
        "Look in the program for a condition around this call that only this rank fulfils.";
  } else {
    verdict->summary = Capitalized(who) + (found.odd.size() == 1 ? " calls " : " call ") +
                       odd_text + of_group + where + " where " +
                       DifferenceText(odd, usual, found.others.size()) + ".";
    verdict->action = "Make this call equal on all ranks: operation, type, size and root.";
  }
}

std::vector<Verdict> FromSignatures(const JobView& view, const Group& group,
                                    const Trouble& trouble) {
  std::vector<MemberCalls> members;
  for (const auto& [position, member] : group.members) {
    if (member.second->recent.empty()) continue;
    MemberCalls calls{member.first, {}};
    for (const Signature& signature : member.second->recent) {
      calls.calls[signature.sequence] = signature;
    }
    members.push_back(std::move(calls));
  }
  const std::optional<Disagreement> found = FindDisagreement(members);
  if (!found) return {};
  const bool different = !found->told_apart || found->divergence == Divergence::kDifferent;
  Verdict verdict = MakeVerdict(trouble.ended ? "error" : "hang",
                                different ? "collective_mismatch" : "collective_skipped");
  verdict.conclusive = true;
  verdict.confidence = !found->told_apart ? 0.6 : found->odd.size() == 1 ? 0.98 : 0.9;
  verdict.since_unix_ns = trouble.since_unix_ns;
  Describe(view, group, *found, &verdict);
  const auto add = [&](Rank rank, const Signature& call) {
    Evidence evidence;
    const RankView& member = *view.Find(rank);
    evidence.text = Capitalized(RankText(view.job(), rank)) + " called " +
                    CollectiveText(call.operation, call.data_type, call.bytes, found->sequence) +
                    " of group " + group.name + " (last calls kept in its " + SourceText(member) +
                    ")";
    for (const OpenCall* open : member.waits) {
      if (open->communicator == group.id && open->sequence == found->sequence) {
        evidence.text += PlaceText(*open);
      }
    }
    evidence.metric = "bytes";
    evidence.value = static_cast<double>(call.bytes);
    evidence.unit = "B";
    evidence.expected = static_cast<double>(found->usual_call.bytes);
    verdict.evidence.push_back(std::move(evidence));
  };
  add(found->odd.front(), found->odd_call);
  if (!found->others.empty()) add(found->others.front(), found->usual_call);
  std::vector<Rank> victims;
  for (const auto& [position, member] : group.members) {
    if (std::find(found->odd.begin(), found->odd.end(), member.first) == found->odd.end()) {
      victims.push_back(member.first);
    }
  }
  AddWaitEvidence(view, trouble.waiting, &verdict);
  SetRanks(view, found->odd, victims, &verdict);
  return {verdict};
}

// A rank has finished more steps than those that wait for it, with fewer calls: it left calls out.
// So many may be ahead that it is those who wait who made a call too many.
std::vector<Verdict> FromStepsAhead(const JobView& view, const Group& group,
                                    const Trouble& trouble) {
  std::vector<Rank> ahead, waiters;
  const OpenCall* waited_in = nullptr;
  for (Rank rank : trouble.waiting) {
    const RankView& waiter = *view.Find(rank);
    for (const OpenCall* call : waiter.waits) {
      if (call->kind != EventKind::kCollective || call->communicator != group.id) continue;
      for (Rank missing : MissingMembers(view, *call)) {
        const RankView& other = *view.Find(missing);
        if (other.standing == Standing::kSilent || other.standing == Standing::kDied) continue;
        if (other.record->state.steps <= waiter.record->state.steps) continue;
        if (StepsInLine(*other.record, *waiter.record, group.id) < kStepsToTrustNumbers) continue;
        ahead.push_back(missing);
        waiters.push_back(rank);
        waited_in = call;
      }
    }
  }
  if (ahead.empty()) return {};
  for (std::vector<Rank>* ranks : {&ahead, &waiters}) {
    std::sort(ranks->begin(), ranks->end());
    ranks->erase(std::unique(ranks->begin(), ranks->end()), ranks->end());
  }
  const bool extra = ahead.size() > waiters.size();
  const std::vector<Rank>& odd = extra ? waiters : ahead;
  const std::vector<Rank>& others = extra ? ahead : waiters;
  Verdict verdict = MakeVerdict("hang", "collective_skipped");
  verdict.conclusive = true;
  verdict.confidence = odd.size() == 1 && others.size() > 1 ? 0.95 : 0.8;
  verdict.since_unix_ns = trouble.since_unix_ns;
  const std::string who = odd.size() == 1 ? RankText(view.job(), odd.front()) : RanksText(odd);
  const uint64_t ahead_steps = view.Find(ahead.front())->record->state.steps;
  const uint64_t wait_steps = view.Find(waiters.front())->record->state.steps;
  verdict.summary = Capitalized(who) +
                    (extra ? " made a call too many before " : " left a call out: past ") +
                    WaitText(view, *waited_in) + " by steps (" + std::to_string(ahead_steps) +
                    " against " + std::to_string(wait_steps) + "), not by calls" +
                    WaitersText(view, waiters, odd.size() == 1) + ".";
  verdict.action =
      "Look in the program for a condition around this call that differs between ranks "
      "(rank checks, skipped batches, NaN handling, no_sync).";
  for (Rank rank : {ahead.front(), waiters.front()}) {
    Evidence evidence;
    evidence.text = Capitalized(RankText(view.job(), rank)) + " finished " +
                    CountText(view.Find(rank)->record->state.steps, "step") +
                    " (step counter in its segment)";
    evidence.metric = "steps";
    evidence.value = static_cast<double>(view.Find(rank)->record->state.steps);
    evidence.unit = "steps";
    verdict.evidence.push_back(std::move(evidence));
  }
  AddWaitEvidence(view, waiters, &verdict);
  SetRanks(view, odd, others, &verdict);
  return {verdict};
}

}  // namespace

std::vector<Verdict> DetectSilentDisagreement(const JobView& view) {
  if (view.job().ended || view.alive() == 0) return {};
  std::vector<Verdict> verdicts;
  for (const StepDisagreement& found : FindStepDisagreements(view.job())) {
    const bool different = found.difference == 0;
    Verdict verdict = MakeVerdict("hang", different ? "collective_mismatch" : "collective_skipped");
    verdict.conclusive = different;
    verdict.confidence = different ? 0.9 : 0.7;
    verdict.severity = "medium";
    verdict.lost_share = 0;
    verdict.since_unix_ns = found.since_unix_ns;
    const Group* group = view.FindGroup(found.communicator);
    const std::string of_group = group == nullptr ? "" : " of group " + group->name;
    const std::string who =
        found.odd.size() == 1 ? RankText(view.job(), found.odd.front()) : RanksText(found.odd);
    const std::string step = " in step " + std::to_string(found.step.value);
    const auto calls = static_cast<size_t>(std::abs(found.difference));
    if (different) {
      verdict.summary = Capitalized(who) + " made other calls" + of_group + step + " than " +
                        CountText(found.others.size(), "other rank") + ": " +
                        (found.odd_call.empty() ? "without " + found.usual_call : found.odd_call) +
                        "; the job goes on with wrong numbers or will hang.";
    } else {
      verdict.summary = Capitalized(who) + " made " + CountText(calls, "collective") +
                        (found.difference < 0 ? " less" : " more") + of_group + step + " than " +
                        CountText(found.others.size(), "other rank") +
                        "; calls have paired up out of step ever since.";
    }
    verdict.action =
        "Look in the program for a call around this step that differs between ranks; results since "
        "this step are not to be trusted.";
    Evidence evidence;
    evidence.text = "Collectives" + of_group + step + " on " + who + " (folded steps)";
    evidence.metric = "collectives";
    evidence.value = found.odd_count;
    evidence.unit = "calls";
    evidence.expected = found.usual_count;
    verdict.evidence.push_back(std::move(evidence));
    SetRanks(view, found.odd, found.others, &verdict);
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

std::vector<Verdict> DetectDisagreement(const JobView& view) {
  for (const auto method : {FromSignatures, FromStepsAhead}) {
    for (const auto& [id, group] : view.groups()) {
      const Trouble trouble = TroubleIn(view, group);
      if (!trouble.found) continue;
      std::vector<Verdict> verdicts = method(view, group, trouble);
      if (!verdicts.empty()) return verdicts;
    }
  }
  return {};
}

}  // namespace flare::diag
