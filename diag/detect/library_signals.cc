// SPDX-License-Identifier: Apache-2.0
#include "diag/detect/library_signals.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "diag/detect/causes.h"
#include "diag/detect/words.h"

namespace flare::diag {
namespace {

constexpr int64_t kRemoteError = 6;  // ncclRemoteError: a peer has gone
constexpr size_t kShown = 4;         // pieces of evidence
constexpr size_t kMostVerdicts = 16;

using Signals = std::vector<const HostSignal*>;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Signals OfKind(const Job& job, SignalKind kind) {
  Signals signals;
  for (const HostSignal& signal : job.signals) {
    if (signal.kind == kind) signals.push_back(&signal);
  }
  return signals;
}

void AddUnique(const std::string& item, std::vector<std::string>* list) {
  if (item.empty() || std::find(list->begin(), list->end(), item) != list->end()) return;
  list->push_back(item);
}

std::vector<Rank> RanksOf(const Signals& signals) {
  std::vector<Rank> ranks;
  for (const HostSignal* signal : signals) {
    if (signal->rank) ranks.push_back(*signal->rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// "Rank 3 on node a", "ranks 0-7", "node a", "local rank 3", "a process".
std::string WhoText(const Job& job, const Signals& signals) {
  const std::vector<Rank> ranks = RanksOf(signals);
  if (ranks.size() > 1) return RanksText(ranks);
  const HostSignal& first = *signals.front();
  if (ranks.size() == 1) {
    std::string text = RankText(job, ranks.front());
    if (!Contains(text, " on node ") && !first.node.empty()) text += " on node " + first.node;
    return text;
  }
  std::vector<std::string> nodes;
  for (const HostSignal* signal : signals) AddUnique(signal->node, &nodes);
  if (nodes.size() > 1) return CountText(nodes.size(), "node");
  if (nodes.size() == 1) return "a process on node " + nodes.front();
  if (first.device.starts_with("local rank")) return first.device + " of a node";
  return "a process";
}

// `text` up to a length that fits in a sentence, without a full stop of its own.
std::string Short(std::string_view text) {
  constexpr size_t kMost = 200;
  std::string out(text.substr(0, kMost));
  while (!out.empty() && (out.back() == '.' || out.back() == ' ')) out.pop_back();
  return text.size() > kMost ? out + "..." : out;
}

void Fill(const Job& job, const Signals& signals, Verdict* verdict) {
  uint64_t since = 0;
  size_t shown = 0;
  for (const HostSignal* signal : signals) {
    AddUnique(signal->node, &verdict->nodes);
    if (signal->at_unix_ns != 0 && (since == 0 || signal->at_unix_ns < since)) {
      since = signal->at_unix_ns;
    }
    if (shown++ >= kShown) continue;
    Evidence evidence;
    evidence.text = signal->text;
    if (signal->rank && !Contains(evidence.text, "ank ")) {
      evidence.text = Capitalized(RankText(job, *signal->rank)) + ": " + evidence.text;
    }
    if (!signal->source.empty()) evidence.text += " (" + signal->source + ")";
    if (signal->count > 1) {
      evidence.metric = "count";
      evidence.value = static_cast<double>(signal->count);
    }
    verdict->evidence.push_back(std::move(evidence));
  }
  verdict->since_unix_ns = since;
}

Verdict Conclusive(const Job& job, std::string_view finding_class, std::string_view cause,
                   const Signals& signals) {
  Verdict verdict = MakeVerdict(finding_class, cause);
  verdict.conclusive = true;
  verdict.confidence = 0.9;
  verdict.ranks = RanksOf(signals);
  Fill(job, signals, &verdict);
  return verdict;
}

// What a job survived: it costs time, if anything.
Verdict Survived(const Job& job, std::string_view finding_class, std::string_view cause,
                 const Signals& signals) {
  Verdict verdict = MakeVerdict(finding_class, cause);
  verdict.confidence = 0.4;
  verdict.severity = "low";
  verdict.lost_share = 0;
  Fill(job, signals, &verdict);
  return verdict;
}

std::map<int64_t, Signals> ByCode(const Signals& signals) {
  std::map<int64_t, Signals> by_code;
  for (const HostSignal* signal : signals) by_code[signal->code.value_or(-1)].push_back(signal);
  return by_code;
}

// An error of the program: memory it does not have or own, an assertion. All else is the device.
bool IsOfTheProgram(int64_t cuda_code) {
  return cuda_code == 1 || cuda_code == 2 || cuda_code == 9 || cuda_code == 98 ||
         cuda_code == 700 || cuda_code == 710 || cuda_code == 716;
}

std::vector<Verdict> CudaErrors(const Job& job) {
  std::vector<Verdict> verdicts;
  for (const auto& [code, signals] : ByCode(OfKind(job, SignalKind::kCudaError))) {
    Verdict verdict = Conclusive(job, "error", "cuda_error", signals);
    verdict.summary = Capitalized(WhoText(job, signals)) +
                      " failed in CUDA: " + Short(signals.front()->text) + ".";
    if (IsOfTheProgram(code)) {
      verdict.team = "algorithm";
      verdict.action = code == 2
                           ? "Lower the memory need of this rank, or find what leaks; compare "
                             "torch.cuda.memory_summary() of ranks."
                           : "Run with CUDA_LAUNCH_BLOCKING=1 and compute-sanitizer to find the "
                             "kernel; check indices and shapes.";
    } else {
      verdict.action =
          "Look at the kernel log of its node for an Xid at this time, and test the GPU (dcgmi "
          "diag) "
          "before it is used again.";
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

std::vector<Verdict> NcclErrors(const Job& job) {
  std::vector<Verdict> verdicts;
  for (const auto& [code, signals] : ByCode(OfKind(job, SignalKind::kNcclError))) {
    if (code == kRemoteError) continue;
    Verdict verdict = Conclusive(job, "error", "nccl_error", signals);
    verdict.summary =
        "NCCL failed on " + WhoText(job, signals) + ": " + Short(signals.front()->text) + ".";
    verdict.action =
        code == 5 ? "Make calls, sizes and devices of all ranks agree; NCCL_DEBUG=WARN says more."
                  : "Run with NCCL_DEBUG=WARN; look at the network of this node (link state, MTU, "
                    "firewall), /dev/shm and limits.";
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

std::vector<Verdict> LostPeers(const Job& job) {
  Signals lost;
  for (const HostSignal* signal : OfKind(job, SignalKind::kNcclError)) {
    if (signal->code == kRemoteError) lost.push_back(signal);
  }
  if (lost.empty()) return {};
  Verdict verdict = MakeVerdict("error", "nccl_error");
  verdict.confidence = 0.4;
  verdict.victims = RanksOf(lost);
  Fill(job, lost, &verdict);
  verdict.nodes.clear();  // those of victims
  verdict.summary =
      Capitalized(WhoText(job, lost)) +
      " lost the connection to a peer, which ended or is cut off; which one is not said: " +
      Short(lost.front()->text) + ".";
  verdict.action =
      "Look for the process that ended first: its output, the kernel log of its node, the network.";
  return {verdict};
}

// Up to the place and beyond what differs between ranks.
std::string Alike(std::string_view text) {
  std::string alike;
  for (const char c : text.substr(0, 100)) {
    if (c < '0' || c > '9') alike.push_back(c);
  }
  return alike;
}

std::vector<Verdict> Exceptions(const Job& job) {
  std::map<std::string, Signals> alike;
  std::vector<Rank> known;
  for (const HostSignal* signal : OfKind(job, SignalKind::kException)) {
    // torchrun tells again, with less, what the rank itself said.
    const bool again = signal->rank && signal->code &&
                       std::find(known.begin(), known.end(), *signal->rank) != known.end();
    if (again) continue;
    if (signal->rank) known.push_back(*signal->rank);
    alike[Alike(signal->text)].push_back(signal);
  }
  std::vector<Verdict> verdicts;
  for (const auto& [text, signals] : alike) {
    Verdict verdict = Conclusive(job, "error", "uncaught_exception", signals);
    verdict.summary =
        Capitalized(WhoText(job, signals)) + " raised " + Short(signals.front()->text) + ".";
    if (signals.front()->code) {
      verdict.summary =
          Capitalized(WhoText(job, signals)) + " " + Short(signals.front()->text) + ".";
    }
    verdict.action = "Mend the error that the message names; the traceback is in the output.";
    verdicts.push_back(std::move(verdict));
    if (verdicts.size() == kMostVerdicts) break;
  }
  return verdicts;
}

std::vector<Verdict> Crashes(const Job& job) {
  Signals crashes;
  for (const HostSignal* signal : OfKind(job, SignalKind::kCrash)) {
    if (signal->rank) crashes.push_back(signal);  // others are of unknown processes of the host
  }
  if (crashes.empty()) return {};
  Verdict verdict = Conclusive(job, "error", "process_crashed", crashes);
  verdict.summary = Capitalized(WhoText(job, crashes)) + " was the first to end, by signal " +
                    std::to_string(crashes.front()->code.value_or(0)) + ": " +
                    Short(crashes.front()->text) + ".";
  verdict.action =
      "Look for the reason in the kernel log of its node (out of memory, Xid, segmentation fault) "
      "and in the rank's own output.";
  return {verdict};
}

bool HasOpenCall(const Job& job, Rank rank) {
  const auto found = job.ranks.find(rank);
  return found != job.ranks.end() && !found->second.state.open_calls.empty();
}

std::vector<Verdict> TimeOuts(const Job& job) {
  Signals calls, watchdogs;
  for (const HostSignal* signal : OfKind(job, SignalKind::kNcclTimeout)) {
    if (signal->device == "watchdog") {
      watchdogs.push_back(signal);
    } else if (!signal->rank || !HasOpenCall(job, *signal->rank)) {
      calls.push_back(signal);  // otherwise the wait itself tells more
    }
  }
  std::vector<Verdict> verdicts;
  if (!calls.empty()) {
    Verdict verdict = MakeVerdict("hang", "cause_not_found");
    verdict.conclusive = true;
    verdict.confidence = 0.5;
    verdict.victims = RanksOf(calls);
    Fill(job, calls, &verdict);
    verdict.nodes.clear();
    verdict.summary =
        Capitalized(WhoText(job, calls)) +
        " waited in a collective until its time limit; who did not come is not said: " +
        Short(calls.front()->text) + ".";
    verdict.action =
        "Import the output or Flight Recorder dumps of all ranks (TORCH_FR_BUFFER_SIZE): they tell "
        "which rank was missing.";
    verdicts.push_back(std::move(verdict));
  }
  if (!watchdogs.empty()) {
    Verdict verdict = MakeVerdict("hang", "cause_not_found");
    verdict.confidence = 0.5;
    verdict.ranks = RanksOf(watchdogs);
    Fill(job, watchdogs, &verdict);
    verdict.summary = "The watchdog of " + WhoText(job, watchdogs) +
                      " hangs itself in a call of CUDA or NCCL: " + Short(watchdogs.front()->text) +
                      ".";
    verdict.action =
        "Dump all threads of this rank (py-spy dump --native): one may hold the GIL inside a CUDA "
        "call, or the driver does not answer.";
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

std::vector<Verdict> Unreachable(const Job& job) {
  Signals dead, silent;
  for (const HostSignal* signal : OfKind(job, SignalKind::kUnreachable)) {
    (signal->value.value_or(0) != 0 ? dead : silent).push_back(signal);
  }
  std::vector<Verdict> verdicts;
  if (!dead.empty()) {
    Verdict verdict = Conclusive(job, "hang", "process_crashed", dead);
    verdict.confidence = 0.7;
    verdict.summary = Capitalized(WhoText(job, dead)) +
                      " cannot be reached by the other processes: " + Short(dead.front()->text) +
                      ".";
    verdict.action =
        "See whether the process still exists on its node: it died, is stopped, or the node is cut "
        "off from the network.";
    verdicts.push_back(std::move(verdict));
  }
  if (!silent.empty()) {
    Verdict verdict = MakeVerdict("hang", "cause_not_found");
    verdict.confidence = 0.5;
    verdict.ranks = RanksOf(silent);
    Fill(job, silent, &verdict);
    verdict.summary = Capitalized(WhoText(job, silent)) +
                      " did not answer when asked: " + Short(silent.front()->text) + ".";
    verdict.action =
        "Ask again; if it stays silent, see whether the process is stopped, dead or swapped out.";
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

std::vector<Verdict> CountsThatDiffer(const Job& job) {
  std::vector<Verdict> verdicts;
  for (const HostSignal* signal : OfKind(job, SignalKind::kCountsDiffer)) {
    const bool still = signal->value.value_or(0) != 0;
    Verdict verdict = MakeVerdict("hang", "cause_not_found");
    verdict.confidence = still ? 0.5 : 0.2;
    verdict.severity = still ? "medium" : "low";
    verdict.lost_share = still ? 1 : 0;
    Fill(job, {signal}, &verdict);
    verdict.summary =
        "Members of a communicator have made different numbers of calls (" + Short(signal->text) +
        ")" +
        (still ? ", and none since the answer before: those with fewer calls hold the "
                 "others up."
               : "; no trouble in a job that moves.");
    verdict.action = still
                         ? "Dump the stacks of the ranks with fewer calls (py-spy dump)."
                         : "Ask again: if the numbers stand still, the ranks with fewer calls hold "
                           "the others up.";
    verdicts.push_back(std::move(verdict));
    if (verdicts.size() == kMostVerdicts) break;
  }
  return verdicts;
}

std::vector<Verdict> Fallbacks(const Job& job) {
  std::vector<Verdict> verdicts;
  if (const Signals off = OfKind(job, SignalKind::kGpuDirectOff); !off.empty()) {
    Verdict verdict = Survived(job, "fail_slow", "gpu_direct_off", off);
    verdict.summary = "NCCL copies through host memory: " + Short(off.front()->text) + ".";
    verdict.action =
        "Load nvidia-peermem (or use DMA-BUF), see NCCL_NET_GDR_LEVEL and the PCI topology; "
        "NCCL_DEBUG=INFO shows \"GDRDMA\" when it works.";
    verdicts.push_back(std::move(verdict));
  }
  if (const Signals lost = OfKind(job, SignalKind::kCollectiveFallback); !lost.empty()) {
    Verdict verdict = Survived(job, "regression", "collective_algorithm", lost);
    verdict.summary = "NCCL gave up a faster way for collectives and goes on without it: " +
                      Short(lost.front()->text) + ".";
    verdict.action =
        "If collectives are slow, mend what the warning names (SHARP aggregation manager, NVLink "
        "SHARP); if this way is not wanted, switch it off (NCCL_COLLNET_ENABLE=0, "
        "NCCL_NVLS_ENABLE=0).";
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

}  // namespace

std::vector<Verdict> DetectLibrarySignals(const Job& job, uint64_t) {
  std::vector<Verdict> verdicts;
  if (job.signals.empty()) return verdicts;
  const auto add = [&](std::vector<Verdict> more) {
    verdicts.insert(verdicts.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
  };
  for (const auto question : {CudaErrors, NcclErrors, Exceptions, Crashes, TimeOuts, Unreachable}) {
    add(question(job));
  }
  if (verdicts.empty()) add(LostPeers(job));
  add(CountsThatDiffer(job));
  add(Fallbacks(job));
  return verdicts;
}

}  // namespace flare::diag
