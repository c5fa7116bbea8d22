// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/stacks.h"

#include <algorithm>
#include <map>
#include <string>

#include "diag/detect/causes.h"
#include "diag/detect/frame_meaning.h"
#include "diag/detect/hold_up.h"
#include "diag/detect/words.h"

namespace flare::diag {
namespace {

// Where the main thread of one process stands.
struct Stand {
  Rank rank;
  const RankRecord* record = nullptr;
  const std::vector<StackFrame>* stack = nullptr;
  StackMeaning meaning;
  std::string site;  // of communication: operation and caller, in words
};

const std::vector<StackFrame>* MainStack(const ProcessState& process) {
  for (const ThreadStack& thread : process.threads) {
    if (thread.name == "MainThread" && !thread.frames.empty()) return &thread.frames;
  }
  if (!process.python_stack.empty()) return &process.python_stack;
  return process.threads.size() == 1 && !process.threads.front().frames.empty()
             ? &process.threads.front().frames
             : nullptr;
}

std::string SiteText(const Stand& stand) {
  std::string text = stand.meaning.operation;
  if (text.empty()) {
    text =
        stand.meaning.meaning == Meaning::kGroupSetup ? "process group creation" : "communication";
  }
  if (const StackFrame* caller = CallerOf(*stand.stack, stand.meaning.frame)) {
    text += ", called from " + FrameText(*caller);
  }
  return text;
}

Doing DoingOf(Meaning meaning) {
  switch (meaning) {
    case Meaning::kDataLoad:
      return Doing::kDataLoad;
    case Meaning::kCheckpoint:
      return Doing::kCheckpoint;
    case Meaning::kGc:
      return Doing::kGc;
    case Meaning::kFileSystem:
      return Doing::kFileSystem;
    case Meaning::kLock:
      return Doing::kLock;
    default:
      return Doing::kUnknown;
  }
}

// "Rank 4 (process 688514)".
std::string WhoText(const Job& job, const Stand& stand) {
  std::string text = RankText(job, stand.rank);
  if (stand.record->pid > 0) text += " (process " + std::to_string(stand.record->pid) + ")";
  return text;
}

class StackView {
 public:
  explicit StackView(const Job& job) : job_(job) {
    for (const auto& [rank, record] : job.ranks) {
      const ProcessState& process = record.state.process;
      if (!record.state.open_calls.empty()) knows_calls_ = true;
      const bool lives = process.life != Life::kExited && process.life != Life::kDied;
      if (process.threads.empty() || !lives) continue;
      Stand stand;
      stand.rank = rank;
      stand.record = &record;
      stand.stack = MainStack(process);
      if (stand.stack != nullptr) Add(std::move(stand));
    }
  }

  const Job& job() const { return job_; }
  // Open calls say more than stacks, and the detector of hangs has them.
  bool knows_calls() const { return knows_calls_; }
  size_t processes() const {
    return collectives.size() + messages.size() + device.size() + blocked.size() +
           computing.size() + unclear.size();
  }
  size_t waiting() const { return collectives.size() + messages.size(); }

  std::vector<Stand> collectives;  // and creations of groups
  std::vector<Stand> messages;     // send, recv
  std::vector<Stand> device;       // wait for their devices or for the autograd engine
  std::vector<Stand> blocked;      // elsewhere
  std::vector<Stand> computing;    // in their own code, as far as can be seen
  std::vector<Stand> unclear;

 private:
  void Add(Stand stand) {
    stand.meaning = MeaningOf(*stand.stack);
    switch (stand.meaning.meaning) {
      case Meaning::kNotARank:
        return;
      case Meaning::kCollective:
      case Meaning::kGroupSetup:
        stand.site = SiteText(stand);
        collectives.push_back(std::move(stand));
        return;
      case Meaning::kPointToPoint:
        stand.site = SiteText(stand);
        messages.push_back(std::move(stand));
        return;
      case Meaning::kDeviceWait:
      case Meaning::kBackward:
        device.push_back(std::move(stand));
        return;
      case Meaning::kNothing: {
        const StackFrame* place = PlaceOf(*stand.stack);
        const bool own_code = place != nullptr && !IsLibraryFile(place->file);
        (own_code ? computing : unclear).push_back(std::move(stand));
        return;
      }
      default:
        blocked.push_back(std::move(stand));
    }
  }

  const Job& job_;
  bool knows_calls_ = false;
};

std::vector<Rank> RanksOf(const std::vector<Stand>& stands) {
  std::vector<Rank> ranks;
  for (const Stand& stand : stands) ranks.push_back(stand.rank);
  return ranks;
}

std::vector<Rank> WaitersOf(const StackView& view) {
  std::vector<Rank> ranks = RanksOf(view.collectives);
  for (const Stand& stand : view.messages) ranks.push_back(stand.rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// "4 processes wait in broadcast, called from f (x.py:1)" for each place, most crowded first.
std::vector<std::string> PlacesText(const StackView& view) {
  std::map<std::string, std::vector<Rank>> places;
  for (const std::vector<Stand>* stands : {&view.collectives, &view.messages}) {
    for (const Stand& stand : *stands) places["in " + stand.site].push_back(stand.rank);
  }
  if (!view.device.empty()) places["for their devices"] = RanksOf(view.device);
  std::vector<std::pair<size_t, std::string>> lines;
  for (auto& [place, ranks] : places) {
    std::sort(ranks.begin(), ranks.end());
    lines.emplace_back(ranks.size(), Capitalized(RanksText(ranks)) +
                                         (ranks.size() == 1 ? " waits " : " wait ") + place);
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (auto& [count, text] : lines) texts.push_back(std::move(text));
  return texts;
}

void AddPlaces(const StackView& view, Verdict* verdict) {
  constexpr size_t kShown = 6;
  const std::vector<std::string> places = PlacesText(view);
  for (size_t i = 0; i < places.size() && i < kShown; ++i) {
    verdict->evidence.push_back({places[i] + " (stack dump)", "", {}, "", {}});
  }
}

void AddStand(const StackView& view, const Stand& stand, Verdict* verdict) {
  std::string text =
      Capitalized(WhoText(view.job(), stand)) + " is in " + FrameText(stand.stack->front());
  const StackFrame& told = (*stand.stack)[stand.meaning.frame];
  if (stand.meaning.frame > 0) text += ", below " + FrameText(told);
  verdict->evidence.push_back({text + " (stack dump)", "", {}, "", {}});
}

uint64_t MomentOf(const std::vector<Stand>& stands, uint64_t now) {
  uint64_t moment = now;
  for (const Stand& stand : stands) {
    if (stand.record->state.at_unix_ns != 0)
      moment = std::min(moment, stand.record->state.at_unix_ns);
  }
  return moment;
}

void SetNodes(const std::vector<Stand>& stands, Verdict* verdict) {
  for (const Stand& stand : stands) {
    const std::string& node = stand.record->node;
    auto& nodes = verdict->nodes;
    if (!node.empty() && std::find(nodes.begin(), nodes.end(), node) == nodes.end()) {
      nodes.push_back(node);
    }
  }
}

constexpr char kSecondDump[] = " A second dump some seconds later that shows the same settles it.";

Verdict NameThem(const StackView& view, const std::vector<Stand>& stands, const HoldUp& hold_up,
                 double confidence, uint64_t now) {
  Verdict verdict = MakeVerdict("hang", hold_up.cause);
  verdict.confidence = confidence;
  verdict.since_unix_ns = MomentOf(stands, now);
  verdict.ranks = RanksOf(stands);
  verdict.victims = WaitersOf(view);
  SetNodes(stands, &verdict);
  const bool one = stands.size() == 1;
  std::string doing = hold_up.doing;
  if (!one && doing.starts_with("is ")) doing = "are " + doing.substr(3);
  verdict.summary =
      Capitalized(one ? WhoText(view.job(), stands.front()) : RanksText(verdict.ranks)) + " " +
      doing;
  const StackFrame* place = PlaceOf(*stands.front().stack);
  if (place != nullptr) verdict.summary += " at " + FrameText(*place);
  verdict.summary += " while " + std::to_string(view.waiting()) + " of " +
                     std::to_string(view.processes()) +
                     " processes wait in communication, at the " + "moment of the dump.";
  verdict.action = std::string(hold_up.action) + kSecondDump;
  for (size_t i = 0; i < stands.size() && i < 4; ++i) AddStand(view, stands[i], &verdict);
  AddPlaces(view, &verdict);
  return verdict;
}

std::vector<Verdict> BlockedElsewhere(const StackView& view, const StackSettings& settings,
                                      uint64_t now) {
  const auto all = static_cast<double>(view.processes());
  if (view.blocked.empty() || view.blocked.size() > view.waiting()) return {};
  if (static_cast<double>(view.computing.size()) > settings.most_computing * all) return {};
  std::map<Doing, std::vector<Stand>> by_doing;
  for (const Stand& stand : view.blocked) by_doing[DoingOf(stand.meaning.meaning)].push_back(stand);
  std::vector<Verdict> verdicts;
  for (const auto& [doing, stands] : by_doing) {
    const HoldUp* hold_up = HoldUpBy(doing);
    if (hold_up == nullptr) continue;
    const double share = static_cast<double>(view.waiting()) / all;
    const double confidence = std::min(settings.most_confidence, hold_up->confidence * share);
    verdicts.push_back(NameThem(view, stands, *hold_up, confidence, now));
  }
  return verdicts;
}

std::vector<Verdict> ComputingWhileOthersWait(const StackView& view, const StackSettings& settings,
                                              uint64_t now) {
  const auto all = static_cast<double>(view.processes());
  const auto late = static_cast<double>(view.computing.size());
  if (view.processes() < settings.least_processes || late == 0 || !view.blocked.empty()) return {};
  if (late > std::max(1.0, settings.most_late * all)) return {};
  if (static_cast<double>(view.collectives.size()) < settings.least_waiting * all) return {};
  return {NameThem(view, view.computing, *HoldUpBy(Doing::kUserCode), 0.4, now)};
}

Verdict NobodyNamed(const StackView& view, std::string summary, uint64_t now) {
  Verdict verdict = MakeVerdict("hang", "cause_not_found");
  verdict.confidence = 0.2;
  verdict.since_unix_ns = MomentOf(view.collectives, now);
  verdict.victims = WaitersOf(view);
  verdict.summary = std::move(summary);
  verdict.action =
      "If these calls belong to one process group, their order differs between the ranks: compare "
      "the code paths that lead to them." +
      std::string(kSecondDump);
  AddPlaces(view, &verdict);
  return verdict;
}

std::vector<Verdict> AllWaitApart(const StackView& view, uint64_t now) {
  const bool all_wait = view.blocked.empty() && view.computing.empty() && view.unclear.empty();
  if (view.collectives.size() < 2 || !all_wait) return {};
  std::map<std::string, size_t> sites;
  for (const Stand& stand : view.collectives) ++sites[stand.site];
  if (sites.size() < 2) return {};
  return {NobodyNamed(view,
                      "All " + std::to_string(view.processes()) +
                          " processes wait, in different collectives; no one can be blamed by "
                          "their stacks alone.",
                      now)};
}

std::vector<Verdict> AloneInBarrier(const StackView& view, const StackSettings& settings,
                                    uint64_t now) {
  if (view.processes() < settings.least_processes || view.collectives.size() != 1) return {};
  const Stand& alone = view.collectives.front();
  const size_t others_waiting = view.messages.size() + view.device.size();
  if (alone.meaning.operation != "barrier" || !view.blocked.empty() ||
      others_waiting * 4 < view.processes()) {
    return {};
  }
  return {NobodyNamed(view,
                      Capitalized(WhoText(view.job(), alone)) + " stands alone in " + alone.site +
                          ", while " + std::to_string(others_waiting) +
                          " others wait for messages or their devices: either it called what the "
                          "others do not, or it came first.",
                      now)};
}

}  // namespace

std::vector<Verdict> DetectStacks(const Job& job, uint64_t now_unix_ns,
                                  const StackSettings& settings) {
  const StackView view(job);
  if (view.knows_calls() || job.ended || view.processes() < 2) return {};
  std::vector<Verdict> verdicts = BlockedElsewhere(view, settings, now_unix_ns);
  if (verdicts.empty()) verdicts = ComputingWhileOthersWait(view, settings, now_unix_ns);
  if (verdicts.empty()) verdicts = AllWaitApart(view, now_unix_ns);
  if (verdicts.empty()) verdicts = AloneInBarrier(view, settings, now_unix_ns);
  return verdicts;
}

}  // namespace flare::diag
