// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/finding_tracker.h"

#include <algorithm>
#include <cstdlib>

#include "diag/detect/causes.h"

namespace flare::diag {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kWithdrawNs = kSecondNs;       // absence that ends a suspicion
constexpr uint64_t kResolveNs = 5 * kSecondNs;    // absence that ends an open finding
constexpr uint64_t kReviveNs = 60 * kSecondNs;    // return within this is the same finding
constexpr uint64_t kTellAgainNs = 5 * kSecondNs;  // the same with newer numbers
constexpr uint64_t kHeardNs = 12 * kSecondNs;     // the job is heard of if a state is this new

bool Live(FindingState state) {
  return state == FindingState::kSuspected || state == FindingState::kOpen;
}

bool Intersect(const std::vector<Rank>& a, const std::vector<Rank>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](Rank rank) { return std::find(b.begin(), b.end(), rank) != b.end(); });
}

// A hang and the error that ends the job by it are one trouble.
bool SameFamily(const std::string& a, const std::string& b) {
  const auto stall = [](const std::string& c) { return c == "hang" || c == "error"; };
  return a == b || (stall(a) && stall(b));
}

// What a host says names its node, often without a rank.
bool SameKey(const Verdict& a, const Verdict& b) {
  return a.finding_class == b.finding_class && a.cause == b.cause && a.ranks == b.ranks &&
         (!a.ranks.empty() || (a.nodes == b.nodes && a.team == b.team));
}

bool Heard(const Job& job, uint64_t now) {
  if (job.ended) return true;
  return std::any_of(job.ranks.begin(), job.ranks.end(), [&](const auto& entry) {
    return entry.second.state.at_unix_ns + kHeardNs >= now;
  });
}

// Whether `update` may take the place of `known` in one finding.
bool Replaces(const Verdict& update, const Verdict& known) {
  // Whoever ends a job that hangs ends its ranks: their deaths do not explain it.
  const bool end_of_ranks = update.cause == "process_crashed" || update.cause == "process_exited";
  if (end_of_ranks && known.conclusive && known.cause != update.cause) return false;
  const int strength = ExplanationStrength(update.cause) - ExplanationStrength(known.cause);
  if (strength != 0) return strength > 0;
  return update.conclusive || !known.conclusive;
}

bool Opens(const Verdict& verdict, uint64_t now) {
  return verdict.conclusive ||
         (verdict.open_after_unix_ns != 0 && now >= verdict.open_after_unix_ns);
}

// Texts alone change with every look, for they tell how long something has lasted.
bool SameSense(const Verdict& a, const Verdict& b) {
  return SameKey(a, b) && a.conclusive == b.conclusive && a.victims == b.victims;
}

}  // namespace

FindingTracker::FindingTracker(std::string job_id) : job_id_(std::move(job_id)) {}

size_t FindingTracker::Match(const Verdict& verdict, const std::vector<bool>& taken, bool exact,
                             uint64_t now) const {
  for (size_t i = findings_.size(); i-- > 0;) {
    const Finding& finding = findings_[i];
    if (taken[i] || lives_[i].over) continue;
    const bool live = Live(finding.state);
    if (!live && now > finding.last_seen_unix_ns + kReviveNs) continue;
    if (exact) {
      if (SameKey(finding.verdict, verdict)) return i;
      continue;
    }
    if (!SameFamily(finding.verdict.finding_class, verdict.finding_class)) continue;
    const std::vector<Rank>& known = finding.verdict.ranks;
    const bool same_ranks = known == verdict.ranks;
    if (finding.verdict.finding_class == "fail_slow" || !live) {
      // Another rank is another trouble; so is another hang after the job went on, unless it is the
      // same ranks again at once with better evidence.
      if (same_ranks && !known.empty()) return i;
      continue;
    }
    // Within one stall of the job, evidence grows: any culprit may turn out to be another. Two
    // troubles at once are told apart by culprits that have nothing in common and began apart.
    const uint64_t a = finding.verdict.since_unix_ns, b = verdict.since_unix_ns;
    const bool together = (a > b ? a - b : b - a) <= 30 * kSecondNs;
    if (known.empty() || verdict.ranks.empty() || Intersect(known, verdict.ranks) || together) {
      return i;
    }
  }
  return findings_.size();
}

bool FindingTracker::Refresh(size_t index, const Job& job, const Verdict& verdict, uint64_t now) {
  Finding& finding = findings_[index];
  Life& life = lives_[index];
  life.absent_since_unix_ns = 0;
  bool changed = false;
  const bool lasting = Live(finding.state);
  if (!lasting) {
    finding.state =
        finding.state == FindingState::kResolved ? FindingState::kOpen : FindingState::kSuspected;
    life.lost_until_unix_ns = now;
    changed = true;
  }
  const bool same = SameKey(finding.verdict, verdict);
  // A job that moves may be slow for another reason later: that is not open because the first was.
  const bool unripe = finding.state == FindingState::kOpen &&
                      finding.verdict.finding_class == "fail_slow" && !Opens(verdict, now);
  if (same || (!unripe && Replaces(verdict, finding.verdict))) {
    const uint64_t since = finding.verdict.since_unix_ns;
    const uint64_t opens = finding.verdict.open_after_unix_ns;
    // A weak look must not make an open finding less certain than it was.
    const bool conclusive = verdict.conclusive || (same && finding.verdict.conclusive);
    if (!SameSense(finding.verdict, verdict) || now >= life.told_unix_ns + kTellAgainNs) {
      life.told_unix_ns = now;
      changed = true;
    }
    finding.verdict = verdict;
    finding.verdict.conclusive = conclusive;
    if (since != 0) {
      finding.verdict.since_unix_ns = std::min(since, finding.verdict.since_unix_ns);
    }
    // Few steps are kept of a fast job, so that the onset which is seen moves on; the patience does
    // not begin anew while the trouble lasts.
    uint64_t& open_after = finding.verdict.open_after_unix_ns;
    if (same && lasting && verdict.finding_class == "fail_slow" && opens != 0) {
      open_after = open_after == 0 ? opens : std::min(opens, open_after);
    }
  }
  const Verdict& current = finding.verdict;
  if (Opens(current, now) && finding.state == FindingState::kSuspected) {
    finding.state = FindingState::kOpen;
    changed = true;
  }
  const size_t ranks = std::max<size_t>(job.ranks.size(), job.world_size);
  if (now > life.lost_until_unix_ns) {
    finding.gpu_hours_lost += static_cast<double>(now - life.lost_until_unix_ns) / 3.6e12 *
                              static_cast<double>(ranks) * current.lost_share;
    life.lost_until_unix_ns = now;
  }
  finding.last_seen_unix_ns = std::max(finding.last_seen_unix_ns, now);
  return changed;
}

void FindingTracker::Add(const Job& job, const Verdict& verdict, uint64_t now) {
  Finding finding;
  finding.id = job_id_ + "-" + std::to_string(next_number_++);
  finding.job = job_id_;
  finding.verdict = verdict;
  finding.first_seen_unix_ns = now;
  finding.last_seen_unix_ns = now;
  findings_.push_back(std::move(finding));
  Life life;
  life.lost_until_unix_ns = verdict.since_unix_ns == 0 ? now : std::min(verdict.since_unix_ns, now);
  lives_.push_back(life);
  Refresh(findings_.size() - 1, job, verdict, now);
}

bool FindingTracker::Absent(size_t index, uint64_t now) {
  Finding& finding = findings_[index];
  Life& life = lives_[index];
  if (!Live(finding.state)) return false;
  if (life.absent_since_unix_ns == 0) life.absent_since_unix_ns = now;
  const bool open = finding.state == FindingState::kOpen;
  if (now < life.absent_since_unix_ns + (open ? kResolveNs : kWithdrawNs)) return false;
  finding.state = open ? FindingState::kResolved : FindingState::kWithdrawn;
  return true;
}

bool FindingTracker::Update(const Job& job, const std::vector<Verdict>& verdicts,
                            uint64_t now_unix_ns) {
  bool changed = false;
  std::vector<bool> taken(findings_.size(), false);
  std::vector<const Verdict*> left;
  const auto settle = [&](const Verdict& verdict, bool exact) {
    const size_t index = Match(verdict, taken, exact, now_unix_ns);
    if (index == findings_.size()) return false;
    taken[index] = true;
    changed = Refresh(index, job, verdict, now_unix_ns) || changed;
    return true;
  };
  for (const Verdict& verdict : verdicts) {
    if (!settle(verdict, true)) left.push_back(&verdict);
  }
  for (const Verdict* verdict : left) {
    if (settle(*verdict, false)) continue;
    Add(job, *verdict, now_unix_ns);
    taken.push_back(true);
    changed = true;
  }
  if (Heard(job, now_unix_ns)) {
    for (size_t i = 0; i < findings_.size(); ++i) {
      if (!taken[i]) changed = Absent(i, now_unix_ns) || changed;
    }
  }
  Trim();
  return changed;
}

bool FindingTracker::EndJob(const Job& job, uint64_t now_unix_ns) {
  (void)now_unix_ns;
  bool changed = false;
  for (size_t i = 0; i < findings_.size(); ++i) {
    lives_[i].over = true;
    FindingState& state = findings_[i].state;
    if (state == FindingState::kOpen) {
      state = FindingState::kResolved;
      findings_[i].until_job_end = true;
      changed = true;
    } else if (state == FindingState::kSuspected && job.exit_status == 0) {
      state = FindingState::kWithdrawn;
      changed = true;
    }
  }
  return changed;
}

void FindingTracker::Restore(std::vector<Finding> findings) {
  findings_ = std::move(findings);
  lives_.assign(findings_.size(), Life{});
  for (size_t i = 0; i < findings_.size(); ++i) {
    lives_[i].lost_until_unix_ns = findings_[i].last_seen_unix_ns;
    const size_t dash = findings_[i].id.rfind('-');
    if (dash == std::string::npos) continue;
    const uint64_t number = std::strtoull(findings_[i].id.c_str() + dash + 1, nullptr, 10);
    next_number_ = std::max(next_number_, number + 1);
  }
  Trim();
}

void FindingTracker::Trim() {
  while (findings_.size() > kKeptFindings) {
    const auto ended = std::find_if(findings_.begin(), findings_.end(),
                                    [](const Finding& finding) { return !Live(finding.state); });
    const auto oldest = ended == findings_.end() ? findings_.begin() : ended;
    lives_.erase(lives_.begin() + (oldest - findings_.begin()));
    findings_.erase(oldest);
  }
}

}  // namespace flare::diag
