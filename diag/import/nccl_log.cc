// SPDX-License-Identifier: Apache-2.0
// The log of NCCL and RCCL: which process is which rank of which communicator, how data travels,
// and what the library warns of.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "diag/import/job_output.h"
#include "diag/import/nccl_line.h"
#include "diag/import/signal_list.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

using diag::HostSignal;
using diag::SignalKind;

constexpr size_t kMostProcesses = 100'000;
constexpr size_t kMostComms = 1024;  // of a process
constexpr size_t kMostNames = 1024;  // versions, devices and the like
constexpr size_t kShown = 8;         // of names in a note

struct Process {
  std::optional<Rank> told;            // by the prefix of its lines
  std::map<uint64_t, NcclComm> comms;  // by pointer; `bus_id` and `what` not kept
  std::optional<uint32_t> rank;
  uint32_t ranks = 0;  // of the communicator that `rank` is from
  std::string network;
  uint64_t direct = 0, staged = 0;  // connections over the network, with and without GPU-direct
  bool mellanox = false;            // NICs that can read GPU memory
};

// What warnings mean, by a part of their text. The first row that fits counts.
struct Warning {
  std::string_view part;
  SignalKind kind;
  int64_t code;  // ncclResult_t, or -1
};
constexpr Warning kWarnings[] = {
    {"Cannot initialize CollNet", SignalKind::kCollectiveFallback, -1},
    {"SHARP coll init error", SignalKind::kCollectiveFallback, -1},
    {"Failed to bind NVLink SHARP", SignalKind::kCollectiveFallback, -1},
    {"Cuda failure", SignalKind::kCudaError, -1},
    {"HIP failure", SignalKind::kCudaError, -1},
    {"Got completion from peer", SignalKind::kNcclError, 2},
    {"Duplicate GPU detected", SignalKind::kNcclError, 5},
    {"essage truncated", SignalKind::kNcclError, 5},
    {"Error while creating shared memory", SignalKind::kNcclError, 2},
    {"posix_fallocate failed", SignalKind::kNcclError, 2},
    {"No space left on device", SignalKind::kNcclError, 2},
    {"Call to ibv_", SignalKind::kNcclError, 2},
    {"Connection closed by remote peer", SignalKind::kNcclError, 6},
    {"Connection reset by peer", SignalKind::kNcclError, 6},
    {"Connection refused", SignalKind::kNcclError, 6},
    {"Broken pipe", SignalKind::kNcclError, 6},
    {"imed out", SignalKind::kNcclError, 6},
};

// "Cuda failure 700 'an illegal memory access was encountered'".
std::optional<int64_t> FailureCode(std::string_view message) {
  const auto rest = Between(message, "failure ", "");
  return rest ? LeadingNumber(*rest) : std::nullopt;
}

void Keep(std::string_view name, std::set<std::string>* names) {
  if (names->size() < kMostNames && !name.empty()) names->insert(std::string(name.substr(0, 200)));
}

std::string Processes(uint64_t count) {
  return std::to_string(count) + (count == 1 ? " process" : " processes");
}

std::string List(const std::set<std::string>& names) {
  std::string text;
  size_t shown = 0;
  for (const std::string& name : names) {
    if (shown == kShown) return text + " and " + std::to_string(names.size() - kShown) + " more";
    text += (shown++ > 0 ? ", " : "") + name;
  }
  return text;
}

class NcclReader : public OutputReader {
 public:
  void Take(const OutputLine& line) override {
    for (const std::string_view name : {"NCCL version ", "RCCL version "}) {
      if (line.text.starts_with(name)) {
        std::string_view rest = line.text.substr(name.size());
        if (rest.starts_with(": ")) rest.remove_prefix(2);
        // Lines of several writers may run into each other.
        const std::string_view version = TakeWord(&rest);
        Keep(std::string(name.substr(0, 5)) + std::string(version.substr(0, version.find("NCCL"))),
             &versions_);
        found_ = true;
        return;
      }
    }
    const std::optional<NcclLine> nccl = ParseNcclLine(line.text);
    if (!nccl) return;
    found_ = true;
    Process* process = Find(*nccl);
    if (process == nullptr) return;
    if (line.origin.rank) process->told = line.origin.rank;
    if (nccl->warning) return Warn(*nccl, line);
    Inform(nccl->message, process);
  }

  bool found() const override { return found_; }

  void End(Fragment* fragment) override {
    const Owners owners = NumberRanks();
    AddGpuDirect();
    for (auto& [key, signals] : warnings_) {
      const std::optional<Rank> rank = RankOf(processes_.at(key), owners);
      for (HostSignal& signal : signals) {
        if (!signal.rank) signal.rank = rank;
        signals_.Add(std::move(signal));
      }
    }
    signals_.MoveTo(fragment);
    for (auto& [key, process] : processes_) AddRank(key, process, owners, fragment);
    if (fragment->framework.empty()) fragment->framework = List(versions_);
    AddNotes(fragment);
  }

 private:
  using Key = std::pair<std::string, int64_t>;  // host, pid
  using Owners = std::map<uint32_t, size_t>;    // how many processes are this rank

  Process* Find(const NcclLine& line) {
    Key key(line.host, line.pid);
    const auto known = processes_.find(key);
    if (known != processes_.end()) return &known->second;
    if (processes_.size() >= kMostProcesses) {
      ++lines_left_out_;
      return nullptr;
    }
    return &processes_[std::move(key)];
  }

  void Inform(std::string_view message, Process* process) {
    if (const auto transport = ParseNcclTransport(message)) {
      if (transports_.size() < kMostNames) ++transports_[std::string(transport->name)];
      if (transport->network) ++(transport->gpu_direct ? process->direct : process->staged);
      return;
    }
    if (const auto comm = ParseNcclComm(message)) {
      if (comm->what.starts_with("Init COMPLETE")) AddComm(*comm, process);
      return;
    }
    if (message.starts_with("Using network ")) {
      process->network = message.substr(14, 64);
    } else if (message.starts_with("NET/") && Has(message, " : Using ")) {
      AddDevices(message, process);
    } else if (message.starts_with("Bootstrap : Using ")) {
      std::string_view rest = message.substr(18);
      if (rest.starts_with("[0]")) rest.remove_prefix(3);
      Keep(rest.substr(0, rest.find(':')), &bootstrap_);
    } else if (Has(message, "coll channels")) {
      Keep(std::to_string(LeadingNumber(message).value_or(0)), &channels_);
    } else if (Has(message, "GPU Direct RDMA Disabled") ||
               Has(message, "GPU Direct RDMA disabled")) {
      Keep(message, &disabled_);
    }
  }

  static void AddComm(const NcclComm& comm, Process* process) {
    if (process->comms.size() >= kMostComms && !process->comms.contains(comm.pointer)) return;
    NcclComm kept = comm;
    kept.bus_id = kept.what = {};
    process->comms[comm.pointer] = kept;
    // The largest communicator is the one of the whole job.
    if (comm.ranks <= process->ranks) return;
    process->ranks = comm.ranks;
    process->rank = comm.rank;
  }

  // "NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_1:1/IB ; OOB ib0:10.1.2.3<0>"
  void AddDevices(std::string_view message, Process* process) {
    std::string_view rest = message.substr(message.find("Using ") + 6);
    rest = rest.substr(0, rest.find(';'));
    while (!rest.empty()) {
      std::string_view word = TakeWord(&rest);
      const size_t bracket = word.find(']');
      if (!word.starts_with('[') || bracket == std::string_view::npos) continue;
      word = word.substr(bracket + 1);
      word = word.substr(0, word.find(':'));
      if (word.empty()) continue;
      Keep(word, &devices_);
      process->mellanox = process->mellanox || word.starts_with("mlx5");
    }
  }

  void Warn(const NcclLine& nccl, const OutputLine& line) {
    HostSignal signal;
    signal.node = nccl.host;
    signal.rank = line.origin.rank;
    signal.text = "NCCL WARN " + std::string(nccl.message);
    signal.source = line.Source();
    for (const Warning& row : kWarnings) {
      if (!Has(nccl.message, row.part)) continue;
      signal.kind = row.kind;
      if (row.code >= 0) signal.code = row.code;
      if (row.kind == SignalKind::kCudaError) signal.code = FailureCode(nccl.message);
      break;
    }
    if (signal.kind == SignalKind::kUnknown) {
      ++unknown_warnings_;
      if (first_unknown_.empty()) first_unknown_ = nccl.message;
      return;
    }
    if (signal.kind == SignalKind::kCollectiveFallback) signal.rank.reset();  // said by many
    std::vector<HostSignal>& signals = warnings_[Key(nccl.host, nccl.pid)];
    const auto same = std::find_if(signals.begin(), signals.end(), [&](const HostSignal& known) {
      return known.kind == signal.kind && known.code == signal.code;
    });
    if (same != signals.end()) {
      ++same->count;
    } else {
      signals.push_back(std::move(signal));
    }
  }

  // Which rank each process is: as its prefix says, or its rank in the communicator of all. A log
  // of several runs, or of a job without such a communicator, has several processes for a rank:
  // then nobody can say.
  Owners NumberRanks() {
    for (const auto& [key, process] : processes_)
      world_size_ = std::max(world_size_, process.ranks);
    Owners owners;
    for (auto& [key, process] : processes_) {
      if (process.ranks != world_size_) process.rank.reset();
      if (process.told) process.rank = process.told->value;
      if (process.rank) ++owners[*process.rank];
    }
    return owners;
  }

  static std::optional<Rank> RankOf(const Process& process, const Owners& owners) {
    if (!process.rank || owners.at(*process.rank) > 1) return std::nullopt;
    return Rank(*process.rank);
  }

  void AddRank(const Key& key, const Process& process, const Owners& owners, Fragment* fragment) {
    if (process.comms.empty()) return;
    const std::optional<Rank> rank = RankOf(process, owners);
    if (!rank) {
      ++unnumbered_;
      return;
    }
    RankFragment& out = fragment->ranks.emplace_back();
    out.rank = rank;
    out.world_size = world_size_;
    out.record.node = key.first;
    out.record.pid = key.second;
    for (const auto& [pointer, comm] : process.comms) {
      if (comm.id == 0) continue;
      diag::CommunicatorState state;
      state.communicator = CommId(comm.id);
      state.name = "comm of " + std::to_string(comm.ranks);
      state.group_rank = comm.rank;
      state.group_size = comm.ranks;
      out.record.state.communicators.push_back(std::move(state));
    }
  }

  // Off where it could be on: another process of the log has it, or the NIC is known to be able to.
  void AddGpuDirect() {
    for (const auto& [key, process] : processes_) {
      direct_ += process.direct;
      staged_ += process.staged;
    }
    uint64_t off = 0;
    std::set<std::string> nodes;
    for (const auto& [key, process] : processes_) {
      if (process.staged == 0 || process.direct > 0) continue;
      if (direct_ == 0 && !process.mellanox) continue;
      ++off;
      if (direct_ > 0) nodes.insert(key.first);
    }
    if (off == 0) return;
    HostSignal signal;
    signal.kind = SignalKind::kGpuDirectOff;
    signal.count = off;
    if (nodes.empty()) {
      signal.text = "no connection of " + Processes(off) +
                    " over the network uses GPU-direct (no \"GDRDMA\" in the log)";
      signals_.Add(std::move(signal));
      return;
    }
    for (const std::string& node : nodes) {
      signal.node = node;
      signal.text = "connections of " + node +
                    " over the network do not use GPU-direct; those of "
                    "other nodes do";
      signal.count = 1;
      signals_.Add(signal);
    }
  }

  void AddNotes(Fragment* fragment) {
    std::set<std::string> hosts, networks;
    for (const auto& [key, process] : processes_) {
      hosts.insert(key.first);
      if (!process.network.empty()) networks.insert(process.network);
    }
    std::string facts = List(versions_);
    const auto add = [&](const std::string& fact) { facts += (facts.empty() ? "" : "; ") + fact; };
    if (world_size_ > 0) add(Counted(world_size_, "rank"));
    if (!hosts.empty()) add("on " + Counted(hosts.size(), "node"));
    if (!networks.empty()) add("network " + List(networks));
    if (!devices_.empty()) add("NICs " + List(devices_));
    if (!bootstrap_.empty()) add("start-up over " + List(bootstrap_));
    if (!channels_.empty()) add(List(channels_) + " channels for collectives");
    std::string connections;
    for (const auto& [name, count] : transports_) {
      connections += (connections.empty() ? "" : ", ") + name + " " + std::to_string(count);
    }
    if (!connections.empty()) add("connections by " + connections);
    if (direct_ + staged_ > 0) {
      add(staged_ == 0   ? "GPU-direct on"
          : direct_ == 0 ? "GPU-direct off"
                         : "GPU-direct on " + std::to_string(direct_) + " of " +
                               std::to_string(direct_ + staged_) + " connections");
    }
    if (!facts.empty()) fragment->notes.push_back(facts);
    if (networks.size() > 1) fragment->notes.push_back("not all processes use the same network");
    for (const std::string& text : disabled_) fragment->notes.push_back(text);
    if (unnumbered_ > 0) {
      fragment->notes.push_back(
          Processes(unnumbered_) +
          " left out: of several runs, or without a communicator of all, so that "
          "which rank they are cannot be told");
    }
    if (lines_left_out_ > 0) {
      fragment->notes.push_back(Counted(lines_left_out_, "line") +
                                " of too many processes left out");
    }
    if (unknown_warnings_ > 0) {
      fragment->notes.push_back(
          Counted(unknown_warnings_, "warning") +
          " of NCCL of other kinds, the first: " + first_unknown_.substr(0, 200));
    }
  }

  bool found_ = false;
  std::map<Key, Process> processes_;
  std::map<Key, std::vector<HostSignal>> warnings_;
  SignalList signals_;
  std::set<std::string> versions_, devices_, bootstrap_, channels_, disabled_;
  std::map<std::string, uint64_t> transports_;
  uint32_t world_size_ = 0;
  uint64_t direct_ = 0, staged_ = 0, unnumbered_ = 0, lines_left_out_ = 0, unknown_warnings_ = 0;
  std::string first_unknown_;
};

}  // namespace

std::unique_ptr<OutputReader> MakeNcclReader() { return std::make_unique<NcclReader>(); }

}  // namespace flare::import
