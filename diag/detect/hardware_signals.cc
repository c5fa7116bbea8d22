// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/hardware_signals.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <tuple>

#include "diag/detect/causes.h"
#include "diag/detect/signal_judgement.h"
#include "diag/detect/words.h"

namespace flare::diag {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
// Faults of programs this soon after a fault of their GPU follow from it.
constexpr uint64_t kFollowsNs = 600 * kSecondNs;

struct Statement {
  const HostSignal* signal = nullptr;
  Judgement judgement;
};

// The address of a GPU without what tools write differently: "00000000:3B:00.0" is "0000:3b:00".
std::string DeviceKey(const std::string& device) {
  std::string key(device);
  std::transform(key.begin(), key.end(), key.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (key.ends_with(".0")) key.resize(key.size() - 2);
  if (key.starts_with("0000") && key.find(':') == 8) key.erase(0, 4);
  return key;
}

bool Follows(const HostSignal& effect, const HostSignal& fault) {
  if (effect.node != fault.node || effect.device.empty()) return false;
  if (DeviceKey(effect.device) != DeviceKey(fault.device)) return false;
  if (effect.at_unix_ns == 0 || fault.at_unix_ns == 0) return true;
  const uint64_t apart =
      std::max(effect.at_unix_ns, fault.at_unix_ns) - std::min(effect.at_unix_ns, fault.at_unix_ns);
  return apart <= kFollowsNs;
}

std::vector<Statement> JudgeAll(const Job& job) {
  std::vector<Statement> statements;
  for (const HostSignal& signal : job.signals) {
    if (auto judgement = Judge(signal, job)) statements.push_back({&signal, std::move(*judgement)});
  }
  std::vector<Statement> kept;
  for (const Statement& statement : statements) {
    const bool follows =
        statement.judgement.programs_fault &&
        std::any_of(statements.begin(), statements.end(), [&](const Statement& other) {
          return !other.judgement.programs_fault && other.judgement.conclusive &&
                 Follows(*statement.signal, *other.signal);
        });
    if (!follows) kept.push_back(statement);
  }
  return kept;
}

// What the statement is about, where its own words do not say so.
std::string DeviceText(const HostSignal& signal) {
  const bool address = std::count(signal.device.begin(), signal.device.end(), ':') == 2;
  if (address) return (signal.kind == SignalKind::kSxid ? "NVSwitch " : "GPU ") + signal.device;
  const bool port = signal.kind == SignalKind::kLinkDown || signal.kind == SignalKind::kLinkFlap;
  return port || signal.device.starts_with("GPU ") ? signal.device : "";
}

std::string Times(uint64_t count) {
  return count > 1 ? ", " + std::to_string(count) + " times" : "";
}

void AddEvidence(const HostSignal& signal, Verdict* verdict) {
  Evidence evidence;
  evidence.text = signal.text + " (" + signal.source + ")";
  if (signal.kind == SignalKind::kGpuClock && signal.value) {
    evidence.metric = "sm_clock";
    evidence.value = signal.value;
    evidence.unit = "MHz";
  } else if (signal.count > 1) {
    evidence.metric = "times";
    evidence.value = static_cast<double>(signal.count);
  }
  verdict->evidence.push_back(std::move(evidence));
}

// One verdict of statements about one node with cause and team in common. The certain ones lead.
Verdict VerdictOf(std::vector<Statement> statements, const Job& job, uint64_t now) {
  constexpr size_t kNamed = 4;
  constexpr size_t kEvidence = 8;
  std::stable_sort(statements.begin(), statements.end(), [](const auto& a, const auto& b) {
    return a.judgement.conclusive > b.judgement.conclusive;
  });
  const Judgement& first = statements.front().judgement;
  Verdict verdict = MakeVerdict(first.finding_class, first.cause);
  if (first.team != nullptr) verdict.team = first.team;
  verdict.conclusive = first.conclusive;
  verdict.confidence = first.conclusive ? 0.95 : 0.4;
  if (!first.conclusive) verdict.severity = "low";
  verdict.lost_share = 0;
  verdict.action = first.action;
  verdict.since_unix_ns = now;
  const std::string& node = statements.front().signal->node;
  if (!node.empty()) verdict.nodes.push_back(node);
  verdict.summary = (node.empty() ? "The host" : "Node " + node) + " says: ";
  for (size_t i = 0; i < statements.size(); ++i) {
    const HostSignal& signal = *statements[i].signal;
    if (signal.at_unix_ns != 0) {
      verdict.since_unix_ns = std::min(verdict.since_unix_ns, signal.at_unix_ns);
    }
    if (const auto rank = RankOfProcess(signal, job)) verdict.ranks.push_back(*rank);
    const bool link = signal.kind == SignalKind::kNvlinkDown ||
                      signal.kind == SignalKind::kLinkDown || signal.kind == SignalKind::kLinkFlap;
    if (link) verdict.links.push_back(signal.device);
    if (i < kEvidence) AddEvidence(signal, &verdict);
    if (i >= kNamed) continue;
    if (i > 0) verdict.summary += "; ";
    const std::string device = DeviceText(signal);
    if (!device.empty()) verdict.summary += device + ": ";
    verdict.summary += statements[i].judgement.what + Times(signal.count);
  }
  if (statements.size() > kNamed) {
    verdict.summary += "; and " + std::to_string(statements.size() - kNamed) + " more";
  }
  verdict.summary += first.programs_fault ? ". The program did this, not the GPU." : ".";
  const auto order = [](auto* list) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  };
  order(&verdict.ranks);
  order(&verdict.links);
  return verdict;
}

// Watchdogs beside the library say which ranks have work on their devices that does not end: the
// ranks that wait and the one they wait for alike.
std::vector<Verdict> DeviceHangs(const Job& job, uint64_t now) {
  std::vector<Rank> ranks;
  uint64_t since = now;
  for (const HostSignal& signal : job.signals) {
    if (signal.kind != SignalKind::kDeviceHang || !signal.rank) continue;
    ranks.push_back(*signal.rank);
    if (signal.at_unix_ns != 0) since = std::min(since, signal.at_unix_ns);
  }
  if (ranks.empty()) return {};
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const size_t all = std::max<size_t>(job.ranks.size(), job.world_size);
  Verdict verdict = MakeVerdict("hang", "cause_not_found");
  verdict.confidence = ranks.size() == all ? 0.6 : 0.3;
  verdict.since_unix_ns = since;
  verdict.lost_share = 0;
  verdict.victims = ranks;
  verdict.summary =
      Capitalized(RanksText(ranks)) + (ranks.size() == 1 ? " has" : " have") +
      " work on the device that does not end, as a watchdog sees it; " +
      (ranks.size() >= all ? "that is every rank"
                           : "the other " + std::to_string(all - ranks.size()) + " do not") +
      ". Who holds them up it does not say.";
  verdict.action =
      "Dump the stacks of all ranks (py-spy dump), and the Flight Recorder if it is on, and import "
      "them together with this.";
  return {verdict};
}

}  // namespace

std::vector<Verdict> DetectSignals(const Job& job, uint64_t now_unix_ns) {
  using Key = std::tuple<std::string, std::string, std::string>;  // cause, team, node
  std::map<Key, std::vector<Statement>> groups;
  std::vector<Key> order;
  for (Statement& statement : JudgeAll(job)) {
    const Judgement& judgement = statement.judgement;
    Key key{judgement.cause, judgement.team == nullptr ? "" : judgement.team,
            statement.signal->node};
    auto& group = groups[key];
    if (group.empty()) order.push_back(key);
    group.push_back(std::move(statement));
  }
  std::vector<Verdict> verdicts;
  for (const Key& key : order) {
    verdicts.push_back(VerdictOf(std::move(groups[key]), job, now_unix_ns));
  }
  for (Verdict& verdict : DeviceHangs(job, now_unix_ns)) verdicts.push_back(std::move(verdict));
  return verdicts;
}

}  // namespace flare::diag
