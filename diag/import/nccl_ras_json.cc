// SPDX-License-Identifier: Apache-2.0
#include "diag/import/nccl_ras.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "diag/import/signal_list.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

using diag::HostSignal;
using diag::SignalKind;

const char* ResultName(int64_t code) {
  constexpr const char* kNames[] = {"success",        "unhandled CUDA error", "system error",
                                    "internal error", "invalid argument",     "invalid usage",
                                    "remote error",   "in progress"};
  return code >= 0 && code < 8 ? kNames[code] : "unknown error";
}

class JsonReader {
 public:
  JsonReader(const Value& root, std::string source, Fragment* fragment)
      : root_(root), source_(std::move(source)), fragment_(*fragment) {}

  Status Run() {
    if (root_["peer"].kind() == Value::Kind::kTable) return Event();
    const Value& comms = root_["communicators"];
    if (comms.kind() != Value::Kind::kList) return Status::Error("holds no answer of RAS");
    for (const Value& comm : comms.items()) {
      world_size_ = std::max(world_size_, Small(comm["size"]));
    }
    for (const Value& comm : comms.items()) ReadComm(comm);
    signals_.MoveTo(&fragment_);
    for (auto& [rank, out] : ranks_) fragment_.ranks.push_back(std::move(out));
    const std::string_view version = root_["nccl_version"].text();
    if (!version.empty()) fragment_.framework = "NCCL " + std::string(version);
    const std::string_view time = root_["timestamp"].text();
    if (!time.empty())
      fragment_.notes.push_back("RAS was asked at " + std::string(time.substr(0, 40)));
    return Status::Ok();
  }

 private:
  static uint32_t Small(const Value& value) {
    const int64_t number = value.integer().value_or(0);
    return number > 0 && number <= static_cast<int64_t>(kMostRasRanks)
               ? static_cast<uint32_t>(number)
               : 0;
  }

  HostSignal About(const Value& rank, bool of_all) const {
    HostSignal signal;
    const std::optional<int64_t> number = rank["rank"].integer();
    if (of_all && number && *number >= 0 && *number < world_size_) {
      signal.rank = Rank(static_cast<uint32_t>(*number));
    }
    signal.node = rank["host"].text();
    if (const auto device = rank["nvml_dev"].integer())
      signal.device = "GPU " + std::to_string(*device);
    signal.source = source_;
    return signal;
  }

  static std::string Who(const Value& rank) {
    return "process " + std::to_string(rank["pid"].integer().value_or(0)) + " on node " +
           std::string(rank["host"].text());
  }

  Status Event() {
    const std::string_view event = root_["event"].text();
    if (event != "PEER_DEAD") {
      fragment_.notes.push_back("event " + std::string(event.substr(0, 60)) +
                                " says nothing of a fault");
      return Status::Ok();
    }
    HostSignal signal;
    signal.kind = SignalKind::kUnreachable;
    signal.node = root_["peer"]["host"].text();
    signal.value = 1;
    signal.text = Who(root_["peer"]) + " is considered dead by RAS";
    signal.source = source_;
    signals_.Add(std::move(signal));
    signals_.MoveTo(&fragment_);
    return Status::Ok();
  }

  void ReadComm(const Value& comm) {
    const uint32_t size = Small(comm["size"]);
    const bool of_all = size == world_size_;
    std::set<uint32_t> heard;
    std::map<int64_t, size_t> by_count;
    for (const Value& rank : comm["ranks"].items()) {
      if (heard.size() >= kMostRasRanks) break;
      heard.insert(static_cast<uint32_t>(std::max<int64_t>(rank["rank"].integer().value_or(0), 0)));
      int64_t count = 0;
      for (const auto& [name, calls] : rank["collective_counts"].members()) {
        const int64_t number = calls.integer().value_or(0);
        if (number > 0 && number < (int64_t{1} << 50)) count += number;
      }
      ++by_count[count];
      Errors(rank, of_all);
      if (of_all) AddRank(comm, rank, size, static_cast<uint64_t>(count));
    }
    MissingRanks(comm, size, of_all, heard);
    if (by_count.size() > 1) Differ(comm, by_count);
  }

  void AddRank(const Value& comm, const Value& rank, uint32_t size, uint64_t count) {
    const std::optional<int64_t> number = rank["rank"].integer();
    if (!number || *number < 0 || *number >= size) return;
    RankFragment& out = ranks_[static_cast<uint32_t>(*number)];
    out.rank = Rank(static_cast<uint32_t>(*number));
    out.world_size = world_size_;
    out.record.node = rank["host"].text();
    out.record.pid = rank["pid"].integer().value_or(0);
    std::string_view hash = comm["hash"].text();
    if (hash.starts_with("0x")) hash.remove_prefix(2);
    diag::CommunicatorState state;
    state.communicator = CommId(WholeNumber<uint64_t>(hash, 16).value_or(0));
    state.name = "comm " + std::string(hash.substr(0, 16));
    state.group_rank = out.rank->value;
    state.group_size = size;
    state.launched = count;
    out.record.state.communicators.push_back(std::move(state));
  }

  void Errors(const Value& rank, bool of_all) {
    const Value& status = rank["status"];
    HostSignal signal = About(rank, of_all);
    signal.kind = SignalKind::kNcclError;
    const bool aborted = status["abort_flag"].is_true();
    for (const char* field : {"async_error", "init_state"}) {
      const int64_t code = status[field].integer().value_or(0);
      if (code == 0 || code == 7) continue;
      signal.code = code;
      signal.text = std::string(field) + " " + std::to_string(code) + " (" + ResultName(code) +
                    ") of " + Who(rank) + (aborted ? ", aborted" : "");
      return signals_.Add(std::move(signal));
    }
    if (!aborted) return;
    signal.text = "communicator aborted in " + Who(rank);
    signals_.Add(std::move(signal));
  }

  void MissingRanks(const Value& comm, uint32_t size, bool of_all,
                    const std::set<uint32_t>& heard) {
    std::set<uint32_t> told;
    for (const Value& rank : comm["missing_ranks"].items()) {
      if (told.size() >= kMostRasRanks) break;
      told.insert(static_cast<uint32_t>(std::max<int64_t>(rank["rank"].integer().value_or(0), 0)));
      const bool dead = rank["status"]["considered_dead"].is_true();
      // Reachable, but no member any more or not yet: nothing is wrong with it.
      if (!dead && !rank["status"]["unresponsive"].is_true()) continue;
      HostSignal signal = About(rank, of_all);
      signal.kind = SignalKind::kUnreachable;
      signal.value = dead ? 1 : 0;
      signal.text = Who(rank) + (dead ? " is considered dead by RAS" : " does not answer RAS");
      signals_.Add(std::move(signal));
    }
    if (comm["missing_ranks_count"].integer().value_or(0) <= static_cast<int64_t>(told.size()))
      return;
    for (uint32_t rank = 0; rank < size; ++rank) {
      if (heard.contains(rank) || told.contains(rank)) continue;
      HostSignal signal;
      signal.kind = SignalKind::kUnreachable;
      if (of_all) signal.rank = Rank(rank);
      signal.value = 0;
      signal.text = "RAS has no data of rank " + std::to_string(rank) + " of communicator " +
                    std::string(comm["hash"].text().substr(0, 24));
      signal.source = source_;
      signals_.Add(std::move(signal));
    }
  }

  void Differ(const Value& comm, const std::map<int64_t, size_t>& by_count) {
    HostSignal signal;
    signal.kind = SignalKind::kCountsDiffer;
    signal.device = "communicator " + std::string(comm["hash"].text().substr(0, 24));
    signal.value = 0;
    signal.text = signal.device + ": ";
    size_t shown = 0;
    for (const auto& [count, ranks] : by_count) {
      if (shown == 4) break;
      signal.text += (shown++ > 0 ? ", " : "") + Counted(ranks, "rank") + " with " +
                     std::to_string(count) + " calls";
    }
    signal.source = source_;
    signals_.Add(std::move(signal));
  }

  const Value& root_;
  const std::string source_;
  Fragment& fragment_;
  uint32_t world_size_ = 0;
  std::map<uint32_t, RankFragment> ranks_;
  SignalList signals_;
};

}  // namespace

Status ReadRasJson(const Value& root, const std::string& source, Fragment* fragment) {
  return JsonReader(root, source, fragment).Run();
}

}  // namespace flare::import
