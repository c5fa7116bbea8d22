// SPDX-License-Identifier: Apache-2.0
// NCCL Inspector: one JSON object a line, one for each collective of each rank, with its size and
// time. There are no steps in it; what was written between two dumps of a process is one stretch of
// time.
#include <simdjson.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "diag/import/importers.h"
#include "diag/import/kineto_names.h"
#include "diag/import/line_reader.h"
#include "diag/import/text_scan.h"

namespace flare::import {
namespace {

constexpr size_t kMostProcesses = 100'000;
constexpr size_t kMostGroups = 1024;  // of a process
constexpr size_t kDurations = 128;    // in a row, of one stretch
constexpr uint64_t kUsNs = 1000;

using Object = simdjson::dom::element;

std::string_view Text(const Object& object, std::string_view key) {
  std::string_view text;
  return object[key].get(text) ? std::string_view() : text;
}

std::optional<int64_t> Integer(const Object& object, std::string_view key) {
  int64_t number = 0;
  if (object[key].get(number)) return std::nullopt;
  return number;
}

std::optional<double> Number(const Object& object, std::string_view key) {
  double number = 0;
  if (object[key].get(number)) return std::nullopt;
  return number;
}

struct Collective {
  uint64_t sequence = 0;
  Operation operation = Operation::kUnknown;
  uint64_t bytes = 0;
  uint64_t duration_ns = 0;  // 0: not timed
};

// Numbers of collectives are counted for each kind of them apart.
struct Group {
  std::string name;
  uint32_t rank = 0, ranks = 0;
  uint64_t last = 0;
  std::vector<Collective> now;  // of the stretch being read
};

struct Process {
  std::map<std::string, Group> groups;  // by communicator and kind of collective
  std::optional<uint32_t> rank;         // in its largest communicator
  uint32_t ranks = 0;
  uint64_t dumped_ns = 0, before_ns = 0;
  uint64_t stretches = 0;
  RankFragment out;
};

CommId IdOf(const std::string& key) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return CommId(hash);
}

class InspectorReader {
 public:
  void Take(std::string_view line) {
    line = Trim(line);
    if (line.empty()) return;
    Object record, header, metadata, perf;
    padded_.assign(line);
    const bool good = !parser_.parse(padded_).get(record) && !record["header"].get(header) &&
                      !record["metadata"].get(metadata);
    if (!good) {
      ++broken_;
      return;
    }
    if (record["coll_perf"].get(perf)) {
      ++others_;
      return;
    }
    const auto rank = Integer(header, "rank"), ranks = Integer(header, "n_ranks");
    const auto sequence = Integer(perf, "coll_sn"), bytes = Integer(perf, "coll_msg_size_bytes");
    const std::string_view name = Text(perf, "coll");
    const bool sane = rank && ranks && *rank >= 0 && *rank < *ranks && *ranks <= (1 << 20) &&
                      sequence && *sequence >= 0 &&
                      *sequence < std::numeric_limits<int64_t>::max() / 2 && !name.empty();
    if (!sane) {
      ++broken_;
      return;
    }
    Process* process = Find(metadata);
    if (process == nullptr) return;
    Dumped(metadata, process);
    const std::string comm(Text(header, "id").substr(0, 40));
    const std::string key = comm + "|" + std::string(name.substr(0, 40));
    if (process->groups.size() >= kMostGroups && !process->groups.contains(key)) {
      ++broken_;
      return;
    }
    Group& group = process->groups[key];
    group.name = "comm " + comm + ", " + std::string(name.substr(0, 40));
    group.rank = static_cast<uint32_t>(*rank);
    group.ranks = static_cast<uint32_t>(*ranks);
    group.last = std::max(group.last, static_cast<uint64_t>(*sequence));
    if (group.ranks > process->ranks) {
      process->ranks = group.ranks;
      process->rank = group.rank;
    }
    Collective collective;
    collective.sequence = static_cast<uint64_t>(*sequence);
    collective.operation = OperationNamed(name);
    collective.bytes = bytes && *bytes > 0 ? static_cast<uint64_t>(*bytes) : 0;
    const double us = Number(perf, "coll_exec_time_us").value_or(0);
    if (us > 0 && us < 1e12) {
      collective.duration_ns = static_cast<uint64_t>(us * kUsNs);
    } else {
      ++untimed_;
    }
    ++collectives_;
    group.now.push_back(collective);
    if (group.now.size() == kDurations) EndStretch(process, false);
  }

  Status End(Fragment* fragment) {
    if (collectives_ == 0) return Status::Error("holds no collectives of NCCL Inspector");
    uint32_t world = 0;
    for (const auto& [key, process] : processes_) world = std::max(world, process.ranks);
    std::map<uint32_t, size_t> owners;
    for (const auto& [key, process] : processes_) {
      if (process.ranks == world) ++owners[*process.rank];
    }
    for (auto& [key, process] : processes_) {
      EndStretch(&process, true);
      if (process.ranks == world && owners[*process.rank] == 1)
        process.out.rank = Rank(*process.rank);
      process.out.world_size = world;
      for (const auto& [name, group] : process.groups) {
        diag::CommunicatorState state;
        state.communicator = IdOf(name);
        state.name = group.name;
        state.group_rank = group.rank;
        state.group_size = group.ranks;
        state.launched = state.completed = group.last + 1;
        process.out.record.state.communicators.push_back(std::move(state));
      }
      fragment->ranks.push_back(std::move(process.out));
    }
    fragment->framework = "NCCL Inspector";
    fragment->notes.push_back(
        Counted(collectives_, "collective") + " of " + std::to_string(processes_.size()) +
        (processes_.size() == 1 ? " process" : " processes") + "; there are no steps in it");
    const auto say = [&](uint64_t count, const char* what) {
      if (count > 0) fragment->notes.push_back(Counted(count, "line") + what);
    };
    say(broken_, " that are no record of Inspector left out");
    say(others_, " about something else than collectives left out");
    if (untimed_ > 0)
      fragment->notes.push_back(Counted(untimed_, "collective") + " without a time");
    return Status::Ok();
  }

 private:
  Process* Find(const Object& metadata) {
    std::string host(Text(metadata, "hostname").substr(0, 200));
    const int64_t pid = Integer(metadata, "pid").value_or(0);
    std::pair key(std::move(host), pid);
    const auto known = processes_.find(key);
    if (known != processes_.end()) return &known->second;
    if (processes_.size() >= kMostProcesses) {
      ++broken_;
      return nullptr;
    }
    Process& process = processes_[key];
    process.out.record.node = key.first;
    process.out.record.pid = key.second;
    return &process;
  }

  // A new dump ends the stretch before it.
  void Dumped(const Object& metadata, Process* process) {
    const auto us = Integer(metadata, "dump_timestamp_us");
    const uint64_t at_ns = us && *us > 0 && *us < std::numeric_limits<int64_t>::max() / 2000
                               ? static_cast<uint64_t>(*us) * kUsNs
                               : 0;
    if (at_ns == 0 || at_ns == process->dumped_ns) return;
    if (process->dumped_ns != 0) EndStretch(process, true);
    process->before_ns = process->dumped_ns;
    process->dumped_ns = at_ns;
  }

  // Of many collectives in one dump each part makes a stretch; only the last one tells its length.
  static void EndStretch(Process* process, bool whole) {
    diag::RankStep step;
    step.step = StepId(diag::kFirstPseudoStep + process->stretches++);
    // Of the first stretch only the end is known.
    const bool known = whole && process->before_ns != 0 && process->before_ns < process->dumped_ns;
    step.start_unix_ns = known ? process->before_ns : process->dumped_ns;
    step.duration_ns = known ? process->dumped_ns - process->before_ns : 0;
    for (auto& [key, group] : process->groups) {
      if (group.now.empty()) continue;
      step.communicators.push_back(Fold(IdOf(key), group.now, &step));
      group.now.clear();
    }
    if (!step.communicators.empty()) KeepStep(std::move(step), &process->out);
  }

  static diag::CommunicatorStep Fold(CommId id, const std::vector<Collective>& collectives,
                                     diag::RankStep* step) {
    diag::CommunicatorStep comm;
    comm.communicator = id;
    comm.count = static_cast<uint32_t>(std::min<size_t>(collectives.size(), UINT32_MAX));
    const auto [first, last] = std::minmax_element(
        collectives.begin(), collectives.end(),
        [](const Collective& a, const Collective& b) { return a.sequence < b.sequence; });
    comm.first_sequence = first->sequence;
    if (last->sequence - first->sequence < kDurations) {
      comm.duration_us.resize(last->sequence - first->sequence + 1);
    }
    diag::OperationTotals totals;
    for (const Collective& one : collectives) {
      totals.operation = one.operation;
      ++totals.count;
      totals.bytes += one.bytes;
      totals.total_ns += one.duration_ns;
      step->communication_ns += one.duration_ns;
      ++step->events;
      if (!comm.duration_us.empty()) {
        comm.duration_us[one.sequence - first->sequence] =
            static_cast<uint32_t>(std::min<uint64_t>(one.duration_ns / kUsNs, UINT32_MAX));
      }
    }
    comm.operations.push_back(totals);
    return comm;
  }

  simdjson::dom::parser parser_;
  std::string padded_;
  std::map<std::pair<std::string, int64_t>, Process> processes_;
  uint64_t collectives_ = 0, broken_ = 0, others_ = 0, untimed_ = 0;
};

}  // namespace

int RecogniseNcclInspector(std::string_view head) {
  const bool first = Has(head, "\"inspector_output_format_version\"");
  const size_t start = head.find_first_not_of(" \t\r\n");
  if (!first || start == std::string_view::npos || head[start] != '{') return 0;
  return 92;
}

Status ReadNcclInspector(Input* input, Fragment* fragment) {
  LineReader lines(input);
  InspectorReader reader;
  while (const std::optional<std::string_view> line = lines.Next()) reader.Take(*line);
  lines.AddNotes(fragment);
  return reader.End(fragment);
}

}  // namespace flare::import
